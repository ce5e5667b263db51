// Answers the calls to one adapter. It must not know how messages are carried.

import type { Definition, Host, Json } from "./adapter.js";
import { Binding } from "./binding.js";
import { ProtocolError, toWire, Unavailable } from "./errors.js";

/** The longest message that the server reads, and the longest that it writes, in bytes. */
export const MOST_OUT = 4 * 1024 * 1024;
export const MOST_IN = 16 * 1024 * 1024;
const PARSE_ERROR = -32700;
const INVALID_REQUEST = -32600;

export const NOT_JSON: Json = { id: null, error: { code: PARSE_ERROR, message: "not JSON" } };

/** The calls to one adapter. */
export class Calls {
  readonly #binding: Binding;

  constructor(
    definition: Definition,
    private readonly notify: (message: Json) => void,
  ) {
    this.#binding = new Binding(definition);
  }

  /** Returns the reply to a message. `undefined` for a notification. */
  async answer(message: unknown): Promise<Json | undefined> {
    const call = message as Json;
    if (typeof call !== "object" || call === null || typeof call.method !== "string") {
      return { id: null, error: { code: INVALID_REQUEST, message: "not a request" } };
    }
    // A notification of the server, of which there are none that matter here.
    if (call.id === undefined) return undefined;
    const { id, method } = call;
    const params = (call.params ?? {}) as Json;
    try {
      return { id, result: await this.#result(method, params) };
    } catch (thrown) {
      return { id, error: toWire(thrown, method === "start" && params.may_exist !== true) };
    }
  }

  /** Lets the adapter close its connections. */
  async close(): Promise<void> {
    try {
      await this.#binding.close();
    } catch (thrown) {
      console.error("closing failed:", thrown);
    }
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
      changed: (...jobs) => this.notify({ method: "changed", params: { jobs } }),
      note: (text, level = "info") => this.notify({ method: "note", params: { level, text } }),
    };
  }
}

/** Returns a message as one line. One that is too long becomes an error; `undefined` if it is a notification. */
export function encode(message: Json): string | undefined {
  try {
    const line = onLine(message);
    const size = Buffer.byteLength(line);
    if (size > MOST_OUT) throw new Unavailable(`the reply has ${size} bytes, and at most ${MOST_OUT} can be sent`);
    return line;
  } catch (thrown) {
    if (message.id === undefined) {
      console.error("a notification was not sent:", thrown);
      return undefined;
    }
    return onLine({ id: message.id, error: toWire(thrown) });
  }
}

/** Returns a message as a line. A half of a character, which UTF-8 cannot say, is replaced. */
function onLine(message: Json): string {
  const line = JSON.stringify({ jsonrpc: "2.0", ...message }, (_, value: unknown) =>
    typeof value === "bigint" ? String(value) : value,
  );
  return `${line.replace(/(\\\\)|\\ud[89a-f][0-9a-f]{2}/g, (_, backslash: string | undefined) => backslash ?? "\ufffd")}\n`;
}
