// Carries the protocol over HTTP: each POST is one message, and its reply is the answer. It must not know what a method
// does, and must not use a body before its sender is proven.

import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";

import type { Definition, Json } from "./adapter.js";
import { Calls, encode, MOST_IN, NOT_JSON } from "./calls.js";

const SESSION = "taskbridge-session";
/** How much the clocks of the server and of this machine may differ, in seconds. */
const SKEW = 300;
/** Backends whose adapters are kept. The one that was not used for the longest time is closed. */
const MOST_SESSIONS = 64;
/** For how long a request may be on its way. */
const READING_MS = 30_000;

/** Where and how a service listens. Exactly one of `bearer` and `hmac` is set: the secret in taskbridge's config. */
export interface ServiceOptions {
  port: number;
  host?: string;
  bearer?: string;
  hmac?: string;
  /** Certificate and private key in PEM, for TLS, which another machine needs. */
  tls?: { cert: string | Buffer; key: string | Buffer };
}

/** Runs the adapter as a service. Returns the server, which listens already or will soon. */
export function serveHttp(definition: Definition, options: ServiceOptions): Server {
  const proven = prover(options);
  const sessions = new Sessions(definition);
  const take = async (request: IncomingMessage, response: ServerResponse) => {
    const { status, body = "", session } = await reply(request, proven, sessions);
    response.statusCode = status;
    response.setHeader("Content-Type", "application/json");
    if (session) response.setHeader(SESSION, session);
    // The rest of a body that is not read ends with the connection.
    if (status === 413) response.setHeader("Connection", "close");
    response.end(body);
  };
  const listener = (request: IncomingMessage, response: ServerResponse) => {
    take(request, response).catch((thrown: unknown) => {
      console.error("a request failed:", thrown);
      response.destroy();
    });
  };
  const server = options.tls ? createTlsServer(options.tls, listener) : createServer(listener);
  server.requestTimeout = READING_MS;
  const end = () => {
    server.close();
    void sessions.close().then(() => process.exit(0));
  };
  process.on("SIGTERM", end);
  process.on("SIGINT", end);
  process.on("unhandledRejection", (reason) => console.error("a promise was rejected and nobody looked:", reason));
  return server.listen(options.port, options.host ?? "127.0.0.1");
}

type Reply = { status: number; body?: string | undefined; session?: string | undefined };
type Prover = (headers: IncomingHttpHeaders, body: Buffer) => boolean;

async function reply(request: IncomingMessage, proven: Prover, sessions: Sessions): Promise<Reply> {
  if (request.method !== "POST") return { status: 405 };
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    size += part.length;
    if (size > MOST_IN) return { status: 413 };
    parts.push(part);
  }
  const body = Buffer.concat(parts);
  if (!proven(request.headers, body)) return { status: 401 };
  let message: Json;
  try {
    message = JSON.parse(body.toString()) as Json;
  } catch {
    return { status: 200, body: encode(NOT_JSON) };
  }
  const session = request.headers[SESSION];
  const answered = await sessions.answer(message, typeof session === "string" ? session : "");
  return answered ? { status: 200, body: encode(answered.reply), session: answered.session } : { status: 404 };
}

/** The adapters of all backends that use this service. */
class Sessions {
  // A session is named by its config and a secret of this process, so that equal backends share an adapter, and no name
  // survives a restart.
  readonly #seal = randomBytes(32);
  readonly #sessions = new Map<string, { calls: Calls; begun: Promise<Json> }>();

  constructor(private readonly definition: Definition) {}

  /** Returns the reply, and the session that began. `undefined` if there is no such session. */
  async answer(message: Json, name: string): Promise<{ reply: Json; session?: string } | undefined> {
    const empty: Json = { id: message?.id ?? null, result: null };
    if (message?.method === "initialize") return this.#begin(message);
    if (message?.method === "describe") return { reply: (await new Calls(this.definition, note).answer(message)) ?? empty };
    const session = this.#sessions.get(name);
    if (!session) return undefined;
    // The last in the order is the one that was used last.
    this.#sessions.delete(name);
    this.#sessions.set(name, session);
    return { reply: (await session.calls.answer(message)) ?? empty };
  }

  async close(): Promise<void> {
    await Promise.all([...this.#sessions.values()].map(({ calls }) => calls.close()));
  }

  async #begin(message: Json): Promise<{ reply: Json; session: string }> {
    const name = createHmac("sha256", this.#seal).update(JSON.stringify(message.params)).digest("hex");
    let session = this.#sessions.get(name);
    if (!session) {
      const calls = new Calls(this.definition, note);
      session = { calls, begun: calls.answer({ ...message, id: 0 }).then((reply) => reply ?? {}) };
      this.#sessions.set(name, session);
    }
    const reply = { ...(await session.begun), id: message.id };
    if (!("result" in reply)) this.#sessions.delete(name);
    for (const [oldest, { calls }] of this.#sessions) {
      if (this.#sessions.size <= MOST_SESSIONS) break;
      this.#sessions.delete(oldest);
      void calls.close();
    }
    return { reply, session: name };
  }
}

/** The server cannot be reached from here. A hint may be lost, and a note is a line of the log of this service. */
function note(message: Json): void {
  const { level, text } = (message.params ?? {}) as Json;
  if (message.method === "note") console.error(`${String(level)}: ${String(text)}`);
}

function prover({ bearer, hmac }: ServiceOptions): Prover {
  if ((bearer === undefined) === (hmac === undefined)) {
    throw new Error("pass either bearer or hmac: the secret that `auth` in taskbridge's config has");
  }
  if (bearer !== undefined) return (headers) => same(headers.authorization ?? "", `Bearer ${bearer}`);
  const key = Buffer.from((hmac ?? "").replace(/^whsec_/, ""), "base64");
  if (!hmac?.startsWith("whsec_") || key.length < 24 || key.length > 64) {
    throw new Error("hmac must be whsec_ and 24 to 64 random bytes in Base64");
  }
  return (headers, body) => isSigned(key, headers, body);
}

/** Verifies a signature by the Standard Webhooks scheme, and its time. */
function isSigned(key: Buffer, headers: IncomingHttpHeaders, body: Buffer): boolean {
  const [id, at] = [String(headers["webhook-id"] ?? ""), String(headers["webhook-timestamp"] ?? "")];
  if (!/^\d{1,15}$/.test(at) || Math.abs(Date.now() / 1000 - Number(at)) > SKEW) return false;
  const signed = createHmac("sha256", key).update(`${id}.${at}.`).update(body).digest("base64");
  const given = String(headers["webhook-signature"] ?? "").split(" ");
  return given.map((each) => same(each, `v1,${signed}`)).includes(true);
}

function same(given: string, expected: string): boolean {
  const [one, other] = [Buffer.from(given), Buffer.from(expected)];
  return one.length === other.length && timingSafeEqual(one, other);
}
