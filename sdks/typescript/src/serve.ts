// Carries the protocol over standard input and output: one message a line. It must not know what a method does.

import type { Definition, Json } from "./adapter.js";
import { Calls, encode, MOST_IN, NOT_JSON } from "./calls.js";

/** For how long `close` of the adapter may take at the end. */
const CLOSING_MS = 1500;

/**
 * Runs the adapter until taskbridge ends it. From here on, standard output belongs to the protocol: what `console.log`
 * writes goes to standard error, which is the server's log. Start child processes with a `stdio` other than `inherit`.
 */
export function serve(definition: Definition): void {
  const write = process.stdout.write.bind(process.stdout) as (line: string) => boolean;
  process.stdout.write = process.stderr.write.bind(process.stderr);
  process.stdout.on("error", () => process.exit(0));
  // The terminal sends it to the whole group; when to end is the server's decision.
  process.on("SIGINT", () => {});
  process.on("unhandledRejection", (reason) => console.error("a promise was rejected and nobody looked:", reason));
  const send = (message: Json) => {
    const line = encode(message);
    if (line) write(line);
  };
  const calls = new Calls(definition, send);
  let rest: Buffer[] = [];
  let size = 0;
  process.stdin.on("data", (chunk: Buffer) => {
    for (let from = 0; from < chunk.length; ) {
      const end = chunk.indexOf(10, from);
      const part = chunk.subarray(from, end < 0 ? chunk.length : end);
      rest.push(part);
      size += part.length;
      if (size > MOST_IN) {
        console.error(`a message has more than ${MOST_IN} bytes: giving up`);
        process.exit(1);
      }
      if (end < 0) return;
      const line = Buffer.concat(rest).toString();
      [rest, size, from] = [[], 0, end + 1];
      void take(calls, line, send);
    }
  });
  process.stdin.on("end", () => void end(calls));
}

async function take(calls: Calls, line: string, send: (message: Json) => void): Promise<void> {
  let message: Json;
  try {
    message = JSON.parse(line) as Json;
  } catch {
    return send(NOT_JSON);
  }
  const reply = await calls.answer(message);
  if (reply) send(reply);
  if (message?.method === "shutdown") await end(calls);
}

/** Lets the adapter close its connections, and ends the program. Jobs go on in the engine. */
async function end(calls: Calls): Promise<void> {
  setTimeout(() => process.exit(0), CLOSING_MS);
  await calls.close();
  process.exit(0);
}
