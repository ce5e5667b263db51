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
/** A signature covers the body, so a body is read before its sender is proven. A longer body than `SMALL` has to share
 * `MOST_UNPROVEN` bytes with the others that are on their way. */
const SMALL = 64 * 1024;
const MOST_UNPROVEN = 4 * MOST_IN;
/** Hints that wait for the next reply. More are lost. */
const MOST_HINTS = 1000;

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
  const proof = proofOf(options);
  const sessions = new Sessions(definition);
  const take = async (request: IncomingMessage, response: ServerResponse) => {
    const { status, body = "", session } = await reply(request, proof, sessions);
    response.statusCode = status;
    response.setHeader("Content-Type", "application/json");
    if (session) response.setHeader(SESSION, session);
    if (status === 429) response.setHeader("Retry-After", "1");
    // The rest of a body that is too long ends with the connection. Of other requests, Node drops it.
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

/** How a request is proven. */
interface Proof {
  /** Checks what needs no body. */
  mayProve(headers: IncomingHttpHeaders): boolean;
  proves(headers: IncomingHttpHeaders, body: Buffer): boolean;
}

async function reply(request: IncomingMessage, proof: Proof, sessions: Sessions): Promise<Reply> {
  if (request.method !== "POST") return { status: 405 };
  // What the headers refuse is not kept.
  if (!proof.mayProve(request.headers)) return { status: 401 };
  const body = await read(request);
  if (typeof body === "number") return { status: body };
  if (!proof.proves(request.headers, body)) return { status: 401 };
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

/** Bytes of the long bodies that are on their way. */
let unproven = 0;

/** Returns the body, or the status that refuses it. */
async function read(request: IncomingMessage): Promise<Buffer | number> {
  const length = Number(request.headers["content-length"] ?? MOST_IN);
  if (length > MOST_IN) return 413;
  const reserved = length > SMALL ? length : 0;
  if (unproven + reserved > MOST_UNPROVEN) return 429;
  unproven += reserved;
  try {
    const parts: Buffer[] = [];
    let size = 0;
    for await (const part of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      size += part.length;
      if (size > MOST_IN) return 413;
      parts.push(part);
    }
    return Buffer.concat(parts);
  } finally {
    unproven -= reserved;
  }
}

/** The adapter of one config, and its hints, which the next reply takes along. */
class Session {
  readonly calls: Calls;
  begun: Promise<Json> = Promise.resolve({});
  #hints = new Set<string>();

  constructor(definition: Definition) {
    this.calls = new Calls(definition, (message) => {
      if (message.method !== "changed") return note(message);
      const { jobs } = message.params as { jobs: unknown[] };
      for (const job of jobs) if (this.#hints.size < MOST_HINTS) this.#hints.add(String(job));
    });
  }

  async answer(message: unknown): Promise<Json | undefined> {
    const reply = await this.calls.answer(message);
    if (!reply || this.#hints.size === 0) return reply;
    const changed = [...this.#hints];
    this.#hints = new Set();
    return { ...reply, changed };
  }
}

/** The adapters of all backends that use this service. */
class Sessions {
  // A session is named by its config and a secret of this process, so that equal backends share an adapter, and no name
  // survives a restart.
  readonly #seal = randomBytes(32);
  readonly #sessions = new Map<string, Session>();

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
    return { reply: (await session.answer(message)) ?? empty };
  }

  async close(): Promise<void> {
    await Promise.all([...this.#sessions.values()].map(({ calls }) => calls.close()));
  }

  async #begin(message: Json): Promise<{ reply: Json; session: string }> {
    const name = createHmac("sha256", this.#seal).update(JSON.stringify(message.params)).digest("hex");
    let session = this.#sessions.get(name);
    if (!session) {
      session = new Session(this.definition);
      session.begun = session.calls.answer({ ...message, id: 0 }).then((reply) => reply ?? {});
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

/** The server cannot be reached from here, so a note is a line of the log of this service. */
function note(message: Json): void {
  const { level, text } = (message.params ?? {}) as Json;
  if (message.method === "note") console.error(`${String(level)}: ${String(text)}`);
}

function proofOf({ bearer, hmac }: ServiceOptions): Proof {
  if ((bearer === undefined) === (hmac === undefined)) {
    throw new Error("pass either bearer or hmac: the secret that `auth` in taskbridge's config has");
  }
  if (bearer !== undefined) {
    const hasToken = (headers: IncomingHttpHeaders) => same(headers.authorization ?? "", `Bearer ${bearer}`);
    return { mayProve: hasToken, proves: hasToken };
  }
  const key = Buffer.from((hmac ?? "").replace(/^whsec_/, ""), "base64");
  if (!hmac?.startsWith("whsec_") || key.length < 24 || key.length > 64) {
    throw new Error("hmac must be whsec_ and 24 to 64 random bytes in Base64");
  }
  return { mayProve: isRecent, proves: (headers, body) => isSigned(key, headers, body) };
}

/** Checks what a signature needs no body for: the time, and that there is a signature. */
function isRecent(headers: IncomingHttpHeaders): boolean {
  const at = String(headers["webhook-timestamp"] ?? "");
  const isNow = /^\d{1,15}$/.test(at) && Math.abs(Date.now() / 1000 - Number(at)) <= SKEW;
  return isNow && Boolean(headers["webhook-signature"]);
}

/** Verifies a signature by the Standard Webhooks scheme. */
function isSigned(key: Buffer, headers: IncomingHttpHeaders, body: Buffer): boolean {
  const [id, at] = [String(headers["webhook-id"] ?? ""), String(headers["webhook-timestamp"] ?? "")];
  const signed = createHmac("sha256", key).update(`${id}.${at}.`).update(body).digest("base64");
  const given = String(headers["webhook-signature"] ?? "").split(" ");
  return given.map((each) => same(each, `v1,${signed}`)).includes(true);
}

function same(given: string, expected: string): boolean {
  const [one, other] = [Buffer.from(given), Buffer.from(expected)];
  return one.length === other.length && timingSafeEqual(one, other);
}
