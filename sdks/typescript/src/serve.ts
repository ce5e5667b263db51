// Carries the protocol over standard input and output: one message a line. It must not know what a method does.

import type { Definition, Host, Json } from "./adapter.js";
import { Binding } from "./binding.js";
import { ProtocolError, toWire, Unavailable } from "./errors.js";

/** The longest line that the server reads, and the longest that it writes, in bytes. */
const MOST_OUT = 4 * 1024 * 1024;
const MOST_IN = 16 * 1024 * 1024;
const PARSE_ERROR = -32700;
const INVALID_REQUEST = -32600;
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
  const server = new Server(definition, write);
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
      void server.take(line);
    }
  });
  process.stdin.on("end", () => void server.end());
}

class Server {
  readonly #binding: Binding;

  constructor(
    definition: Definition,
    private readonly write: (line: string) => boolean,
  ) {
    this.#binding = new Binding(definition);
  }

  /** Answers one message. */
  async take(line: string): Promise<void> {
    let message: Json;
    try {
      message = JSON.parse(line) as Json;
    } catch {
      return this.#send({ id: null, error: { code: PARSE_ERROR, message: "not JSON" } });
    }
    if (typeof message !== "object" || message === null || typeof message.method !== "string") {
      return this.#send({ id: null, error: { code: INVALID_REQUEST, message: "not a request" } });
    }
    // A notification of the server, of which there are none that matter here.
    if (message.id === undefined) return;
    const { id, method } = message;
    const params = (message.params ?? {}) as Json;
    try {
      this.#send({ id, result: await this.#result(method, params) });
    } catch (thrown) {
      this.#send({ id, error: toWire(thrown, method === "start" && params.may_exist !== true) });
    }
    if (method === "shutdown") await this.end();
  }

  /** Lets the adapter close its connections, and ends the program. Jobs go on in the engine. */
  async end(): Promise<void> {
    setTimeout(() => process.exit(0), CLOSING_MS);
    try {
      await this.#binding.close();
    } catch (thrown) {
      console.error("closing failed:", thrown);
    }
    process.exit(0);
  }

  async #result(method: string, params: Json): Promise<unknown> {
    if (typeof params !== "object" || Array.isArray(params)) throw new ProtocolError(INVALID_REQUEST, "params must be an object");
    if (method === "describe") return this.#binding.describe();
    if (method === "initialize") return this.#binding.initialize(params, this.#host(params));
    if (method === "shutdown") return null;
    return this.#binding.call(method, params);
  }

  #host(params: Json): Host {
    return {
      name: String(params.name ?? ""),
      callLimitMs: typeof params.call_limit_ms === "number" ? params.call_limit_ms : 27_000,
      stateDir: String(params.state_dir ?? ""),
      configDir: String(params.config_dir ?? ""),
      changed: (...jobs) => this.#send({ method: "changed", params: { jobs } }),
      note: (text, level = "info") => this.#send({ method: "note", params: { level, text } }),
    };
  }

  #send(message: Json): void {
    let line: string;
    try {
      line = onLine(message);
      const size = Buffer.byteLength(line);
      if (size > MOST_OUT) throw new Unavailable(`the reply has ${size} bytes, and at most ${MOST_OUT} can be sent`);
    } catch (thrown) {
      if (message.id === undefined) return console.error("a notification was not sent:", thrown);
      line = onLine({ id: message.id, error: toWire(thrown) });
    }
    this.write(line);
  }
}

/** Returns a message as a line. A half of a character, which UTF-8 cannot say, is replaced. */
function onLine(message: Json): string {
  const line = JSON.stringify({ jsonrpc: "2.0", ...message }, (_, value: unknown) =>
    typeof value === "bigint" ? String(value) : value,
  );
  return `${line.replace(/(\\\\)|\\ud[89a-f][0-9a-f]{2}/g, (_, backslash: string | undefined) => backslash ?? "\ufffd")}\n`;
}
