// Binds an adapter to the methods of the protocol: what each call means to it, and what its results mean on the wire.
// It must not know how messages are carried.

import type { Adapter, Definition, Host, Job, Json, Person, Started, Subject } from "./adapter.js";
import { Config, ProtocolError, toWire } from "./errors.js";
import { GONE, measure, type Observation } from "./observation.js";

export const VERSION = 1;
const INVALID_PARAMS = -32602;
const METHOD_NOT_FOUND = -32601;
/** How many jobs of an adapter without `observeAll` are looked at at a time. */
const LOOKS = 8;
/** What a result of many jobs may have in bytes and in values, below what the server reads. */
const MOST_RESULT = 3 * 1024 * 1024;
const MOST_VALUES = 300_000;
/** The largest part of a file in one reply. */
const MOST_PART = 2 * 1024 * 1024;

/** The abilities that are methods, with their names in an adapter. */
const ABILITIES = {
  answer: "answer",
  log: "log",
  artifact: "artifact",
  discover: "discover",
  check_up: "checkUp",
  forget: "forget",
} as const;

/** One connected adapter. */
export class Binding {
  #adapter: Adapter | undefined;

  constructor(private readonly definition: Definition) {}

  /** Returns the result of `describe`. */
  describe(): Json {
    const { name, version = "0", schemas = {}, secrets = [] } = this.definition;
    return { protocol: VERSION, name, version, schemas, secrets };
  }

  /** Connects the adapter. Returns the result of `initialize`. */
  async initialize(params: Json, host: Host): Promise<Json> {
    if (params.protocol !== VERSION) {
      throw new ProtocolError(INVALID_PARAMS, `params.protocol is ${String(params.protocol)}; this program knows ${VERSION}`);
    }
    const secrets = (params.secrets ?? {}) as Record<string, string>;
    const adapter = await this.definition.connect(object(params, "config"), secrets, host);
    if (adapter.once !== "key" && adapter.once !== "none") {
      throw new Config(`the adapter's \`once\` is ${String(adapter.once)}; set it to "key" or "none"`);
    }
    this.#adapter = adapter;
    const methods = Object.entries(ABILITIES).filter(([, name]) => typeof adapter[name] === "function");
    return {
      protocol: VERSION,
      once: adapter.once,
      abilities: [...methods.map(([name]) => name), ...(adapter.has ?? [])],
      schemas: this.definition.schemas ?? {},
      key_lasts_ms: adapter.keyLastsMs,
      identity: adapter.identity,
      start_lag_ms: adapter.startLagMs,
      group_separator: adapter.groupSeparator,
      list_lag_ms: adapter.listLagMs,
    };
  }

  /** Makes one call. Returns its result on the wire, or throws what the adapter threw. */
  async call(method: string, params: Json): Promise<unknown> {
    if (!["start", "find", "observe_all", "cancel", ...Object.keys(ABILITIES)].includes(method)) {
      throw new ProtocolError(METHOD_NOT_FOUND, `the method ${method} is not known`);
    }
    const adapter = this.#adapter;
    if (!adapter) throw new ProtocolError(INVALID_PARAMS, "call initialize first");
    const ability = ABILITIES[method as keyof typeof ABILITIES];
    if (ability && typeof adapter[ability] !== "function") {
      throw new ProtocolError(METHOD_NOT_FOUND, `this adapter has no method ${method}`);
    }
    return (await result(adapter, method, params)) ?? null;
  }

  /** Lets the adapter close its connections. */
  async close(): Promise<void> {
    await this.#adapter?.close?.();
  }
}

async function result(adapter: Adapter, method: string, params: Json): Promise<unknown> {
  const handle = () => text(params, "handle");
  const by = params.by as Person | undefined;
  switch (method) {
    case "start": {
      const started = await adapter.start(job(params));
      if (!started) throw new TypeError("start returned no handle");
      return startedOnWire(started);
    }
    case "find": {
      const found = await adapter.find(job(params));
      return found ? startedOnWire(found) : null;
    }
    case "observe_all":
      return bounded((await observed(adapter, subjects(params))).map(onWire));
    case "cancel":
      await adapter.cancel(handle(), by);
      return null;
    case "answer":
      return adapter.answer?.(handle(), text(params, "question"), object(params, "answer") as never, by);
    case "log": {
      const maxBytes = number(params, "max_bytes");
      const search = typeof params.search === "string" ? params.search : undefined;
      const log = await adapter.log?.(handle(), search === undefined ? { maxBytes } : { maxBytes, search });
      return typeof log === "string" ? logEnd(log, maxBytes, search) : log;
    }
    case "artifact":
      return artifact(adapter, handle(), params);
    case "discover":
      return adapter.discover?.();
    case "check_up":
      return adapter.checkUp?.(list(params, "tools") as never);
    case "forget":
      await adapter.forget?.(handle());
      return null;
  }
  return null;
}

async function observed(adapter: Adapter, jobs: Subject[]): Promise<(Observation | Error | null | undefined)[]> {
  if (!jobs.length) return [];
  if (adapter.observeAll) {
    const seen = await adapter.observeAll(jobs);
    if (seen.length !== jobs.length) {
      throw new Error(`observeAll returned ${seen.length} observations for ${jobs.length} jobs`);
    }
    return seen;
  }
  if (!adapter.observe) throw new Config("the adapter has neither `observe` nor `observeAll`");
  const seen = new Array<Observation | Error | null | undefined>(jobs.length);
  let next = 0;
  const look = async () => {
    for (let at = next++; at < jobs.length; at = next++) {
      const { handle } = jobs[at] as Subject;
      try {
        seen[at] = await adapter.observe?.(handle);
      } catch (thrown) {
        seen[at] = thrown instanceof Error ? thrown : new Error(String(thrown));
      }
    }
  };
  await Promise.all(Array.from({ length: LOOKS }, look));
  return seen;
}

function onWire(seen: Observation | Error | null | undefined): unknown {
  if (!(seen instanceof Error)) return seen ?? GONE;
  const { message, data = { kind: "unavailable" } } = toWire(seen);
  return { error: { ...data, message } };
}

/** Leaves out what does not fit into one line. Those jobs are polled again, after others have ended. */
function bounded(seen: unknown[]): unknown[] {
  const later = { error: { kind: "unavailable", message: "the results of other jobs fill this reply" } };
  let [left, values] = [MOST_RESULT, MOST_VALUES];
  return seen.map((each) => {
    const size = Buffer.byteLength(JSON.stringify(each));
    const { count } = measure(each);
    if (size > left || count > values) return later;
    [left, values] = [left - size, values - count];
    return each;
  });
}

function startedOnWire(found: string | Started): Started {
  return typeof found === "string" ? { handle: found } : found;
}

async function artifact(adapter: Adapter, handle: string, params: Json): Promise<Json | null> {
  const [offset, most] = [number(params, "offset"), Math.min(number(params, "max_bytes"), MOST_PART)];
  const found = await adapter.artifact?.(handle, text(params, "name"), { offset, maxBytes: most });
  if (!found) return null;
  const part = found instanceof Uint8Array ? { data: found.subarray(offset, offset + most), size: found.length } : found;
  const data = Buffer.from(part.data.subarray(0, most)).toString("base64");
  return { data, size: part.size, ...("mimeType" in part ? { mime_type: part.mimeType } : {}) };
}

/** Returns the last whole lines that fit, of those that contain the text that is searched for. */
function logEnd(log: string, most: number, search?: string): Json {
  const wanted = search?.toLowerCase();
  const lines = wanted ? log.split(/(?<=\n)/).filter((line) => line.toLowerCase().includes(wanted)).join("") : log;
  const bytes = Buffer.from(lines);
  if (bytes.length <= most) return { text: lines, cut: false };
  let start = bytes.length - most;
  const line = bytes.indexOf(10, start - 1) + 1;
  if (line > 0 && line < bytes.length) start = line;
  // Not within a character.
  while (start < bytes.length && ((bytes[start] ?? 0) & 0xc0) === 0x80) start += 1;
  return { text: bytes.subarray(start).toString(), cut: true };
}

function job(params: Json): Job {
  const files = (Array.isArray(params.files) ? params.files : []).map((file: Json) => ({
    parameter: text(file, "parameter"),
    name: text(file, "name"),
    data: Buffer.from(text(file, "data"), "base64"),
  }));
  const trace = params.trace as Job["trace"];
  const onBehalfOf = params.on_behalf_of as Person | undefined;
  return {
    key: text(params, "key"),
    uuid: String(params.uuid ?? ""),
    target: object(params, "target"),
    arguments: object(params, "arguments"),
    mayExist: params.may_exist === true,
    ...(typeof params.first_attempt_at === "number" ? { firstAttemptAt: params.first_attempt_at } : {}),
    files,
    ...(trace ? { trace } : {}),
    ...(onBehalfOf ? { onBehalfOf } : {}),
  };
}

function subjects(params: Json): Subject[] {
  return list(params, "jobs").map((each) => ({
    handle: text(each as Json, "handle"),
    watched: (each as Json).watched !== false,
    ageMs: typeof (each as Json).age_ms === "number" ? ((each as Json).age_ms as number) : Infinity,
  }));
}

function wrong(name: string, type: string): ProtocolError {
  return new ProtocolError(INVALID_PARAMS, `params.${name} must be ${type}`);
}

function text(params: Json, name: string): string {
  const value = params[name];
  if (typeof value !== "string") throw wrong(name, "a string");
  return value;
}

function number(params: Json, name: string): number {
  const value = params[name];
  if (typeof value !== "number") throw wrong(name, "a number");
  return value;
}

function list(params: Json, name: string): unknown[] {
  const value = params[name];
  if (!Array.isArray(value)) throw wrong(name, "an array");
  return value;
}

function object(params: Json, name: string): Json {
  const value = params[name];
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw wrong(name, "an object");
  return value as Json;
}
