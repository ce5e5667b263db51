// The server's side of the protocol, for the tests of an adapter: starts the program and makes calls.

import { type ChildProcess, spawn, type SpawnOptions } from "node:child_process";
import { randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

import type { Json } from "./adapter.js";
import type { Kind, WireError } from "./errors.js";
import type { Observation } from "./observation.js";

/** How long something may take that must happen: machines that run tests are busy. */
const MOST_MS = 120_000;

/** The error that the program answered with. `kind` is empty for protocol errors. */
export class CallFailed extends Error {
  readonly kind: Kind | "";

  constructor(readonly error: WireError) {
    super(error.message);
    this.kind = error.data?.kind ?? "";
  }
}

interface Waiting {
  done(result: unknown): void;
  failed(error: Error): void;
}

/** An adapter that runs as a child process, and its connection. */
export class Program {
  readonly notifications: { method: string; params: Json }[] = [];
  #id = 0;
  #waiting = new Map<number, Waiting>();

  private constructor(
    readonly process: ChildProcess,
    public initialized: Json,
  ) {
    const lines = createInterface({ input: process.stdout! });
    lines.on("line", (line) => this.#take(JSON.parse(line) as Json));
    lines.on("close", () => {
      for (const each of this.#waiting.values()) each.failed(new Error("the program has ended"));
      this.#waiting.clear();
    });
    process.stdin!.on("error", () => {});
  }

  /** Starts the program and initializes it with this config. */
  static async open(command: string[], config: Json = {}, secrets: Json = {}, options: SpawnOptions = {}): Promise<Program> {
    const child = spawn(command[0]!, command.slice(1), { stdio: ["pipe", "pipe", "inherit"], ...options });
    const program = new Program(child, {});
    const folders = { state_dir: "/dev/null", config_dir: "." };
    const params = { protocol: 1, name: "test", config, secrets, call_limit_ms: MOST_MS, ...folders };
    try {
      program.initialized = (await program.call("initialize", params)) as Json;
    } catch (thrown) {
      await program.kill();
      throw thrown;
    }
    return program;
  }

  /** Makes a call. Returns its result, or throws `CallFailed`. */
  async call(method: string, params: object = {}): Promise<unknown> {
    const id = ++this.#id;
    const answer = new Promise((done, failed) => this.#waiting.set(id, { done, failed }));
    this.process.stdin!.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
    const timer = new AbortController();
    const late = sleep(MOST_MS, undefined, { signal: timer.signal }).then(() => {
      throw new Error(`${method} was not answered`);
    });
    late.catch(() => {});
    return Promise.race([answer, late]).finally(() => timer.abort());
  }

  /** Starts a job, under a new key if none is given. Returns its handle. */
  async start(target: Json, args: Json, key = freshKey(), mayExist = false): Promise<string> {
    return ((await this.call("start", spec(target, args, key, mayExist))) as { handle: string }).handle;
  }

  /** Polls jobs once. */
  async observe(...handles: string[]): Promise<(Observation & { error?: { kind: Kind; message: string } })[]> {
    const jobs = handles.map((handle) => ({ handle, watched: true, age_ms: 600_000 }));
    return (await this.call("observe_all", { group: "", jobs })) as Observation[];
  }

  /** Polls a job until it is in one of these states, or has ended. */
  async wait(handle: string, ...states: string[]): Promise<Observation> {
    for (const began = Date.now(); Date.now() < began + MOST_MS; await sleep(20)) {
      const [seen] = await this.observe(handle);
      if (seen?.state && (states.includes(stateOf(seen)) || !["queued", "running"].includes(stateOf(seen)))) return seen;
    }
    throw new Error(`${handle} did not end`);
  }

  /** Ends the program as `kill -9` does. */
  async kill(): Promise<void> {
    this.process.kill("SIGKILL");
    await this.#ended();
  }

  /** Ends the program as the server does. Returns its exit code. */
  async stop(): Promise<number | null> {
    await this.call("shutdown");
    this.process.stdin!.end();
    await this.#ended();
    return this.process.exitCode;
  }

  async #ended(): Promise<void> {
    if (this.process.exitCode === null && this.process.signalCode === null) await once(this.process, "exit");
  }

  #take(message: Json): void {
    const waiting = this.#waiting.get(message.id as number);
    this.#waiting.delete(message.id as number);
    if (!waiting) this.notifications.push(message as never);
    else if (message.error) waiting.failed(new CallFailed(message.error as WireError));
    else waiting.done(message.result);
  }
}

/** Returns a new key of a job. */
export function freshKey(): string {
  const letters = "abcdefghijklmnopqrstuvwxyz234567";
  return `tb-${[...randomBytes(26)].map((byte) => letters[byte % 32]).join("")}`;
}

/** Returns the params of `start` and `find`. */
export function spec(target: Json, args: Json, key = freshKey(), mayExist = false): Json {
  return { key, uuid: randomUUID(), target, arguments: args, files: [], may_exist: mayExist };
}

/** Returns the word of a state, such as `succeeded`. */
export function stateOf(observation: Observation): string {
  const { state } = observation;
  return typeof state === "string" ? state : Object.keys(state)[0]!;
}
