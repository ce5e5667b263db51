/**
 * What every driven Node client shares: the lines that `table/` sends, and what they ask of a client. The lines are
 * those of `python/drive.py`. It decides nothing about what is right: that is said by `table/scenarios.py`.
 */

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

export const MODERN = "2026-07-28";
export const TERMINAL = ["completed", "failed", "cancelled"];

/** How the client is to connect: a URL or a server's command, and which generation it speaks. */
export function setup() {
  // Everything behind --stdio belongs to the server's command, also what looks like an option.
  const args = process.argv.slice(2);
  const at = args.indexOf("--stdio");
  const command = at < 0 ? [] : args.splice(at).slice(1);
  const url = args.includes("--url") ? args[args.indexOf("--url") + 1] : undefined;
  return { url, command, modern: args.includes("--modern"), tasks: !args.includes("--no-tasks") };
}

/** The names and versions of installed packages. */
export function library(...names) {
  const version = (name) =>
    JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url), "utf8")).version;
  return names.map((name) => `${name.split("/").at(-1)} ${version(name)}`).join(", ");
}

/** One connected client. A subclass leaves out what its library does not have. */
export class Driven {
  constructor(options) {
    this.options = options;
    this.begin(true);
  }

  /** Forgets what was asked. Questions from here on are accepted, or declined. */
  begin(accepts) {
    this.accepts = accepts;
    this.asked = [];
  }

  /** Answers a question as the scenario said. */
  answer(message) {
    this.asked.push(message);
    if (!this.accepts) return { action: "decline" };
    // What needs no more than consent has an empty form, or one word for it.
    const consent = message.includes("approve") ? { approve: true } : {};
    return { action: "accept", content: message.includes("name") ? { name: "Ada" } : consent };
  }

  /** Holds that the library did not fall back to another generation by itself. */
  spoke(version) {
    if ((version === MODERN) !== this.options.modern) throw new Error(`the library settled for ${version}`);
  }

  open({ accepts }) {
    this.begin(accepts);
    return this.connect();
  }

  questions() {
    return this.asked;
  }
}

/** A tool result in the words of the table. */
export function outcome(result) {
  const blocks = (type) => (result.content ?? []).filter((block) => block.type === type);
  const text = blocks("text").map((block) => block.text).join("");
  return {
    text: text.replace(/\n+$/, ""),
    structured: result.structuredContent ?? null,
    error: Boolean(result.isError),
    links: blocks("resource_link").map((block) => block.uri),
  };
}

function say(line) {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

/** Does what each line says, until there are no more. */
export async function serve(client, name) {
  say({ ok: name });
  for await (const line of createInterface({ input: process.stdin })) {
    try {
      const { op, ...args } = JSON.parse(line);
      say({ ok: (await client[op](args)) ?? null });
    } catch (error) {
      say({ failed: error.cause ? `${error}: ${error.cause}` : String(error) });
    }
  }
}
