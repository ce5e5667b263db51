// A taskbridge adapter for BullMQ 6: a tool's call becomes a job in a queue.
//
// BullMQ keeps one job under an id, so the key of a task is the id of its job. A job that runs can be stopped only by
// its own worker: see `cancellable` in worker.ts.

import { Job, Queue } from "bullmq";
import { Redis } from "ioredis";
import {
  type Adapter, cancelled, Config, failed, GONE, type Job as Spec, type Json, type Observation, queued, running, serve,
  type Subject, succeeded, Unavailable,
} from "taskbridge-adapter";

import { CHANNEL, stopKey, WEEK } from "./stop.js";

class Bullmq implements Adapter {
  readonly once = "key";
  // A handle is QUEUE/KEY.
  readonly groupSeparator = "/";
  readonly identity: string;
  readonly #queues = new Map<string, Queue>();

  constructor(
    readonly redis: Redis,
    readonly queue: string,
  ) {
    const { host, port, db } = redis.options;
    this.identity = `redis ${host}:${port}/${db}`;
  }

  async start(spec: Spec): Promise<string> {
    const { job: name, queue = this.queue, attempts = 1 } = spec.target as { job: string; queue?: string; attempts?: number };
    const handle = `${queue}/${spec.key}`;
    if (this.redis.status !== "ready") throw new Unavailable(`Redis is away: ${this.redis.status}`);
    // A job that was cancelled in its queue is no longer there, and must not start again.
    if (await this.redis.exists(stopKey(handle))) return handle;
    const kept = { age: WEEK };
    await this.#queue(queue).add(name, spec.arguments, { jobId: spec.key, attempts, removeOnComplete: kept, removeOnFail: kept });
    return handle;
  }

  async find(spec: Spec): Promise<string | null> {
    const { queue = this.queue } = spec.target as { queue?: string };
    const handle = `${queue}/${spec.key}`;
    const known = (await this.#job(handle)) ?? (await this.redis.exists(stopKey(handle)));
    return known ? handle : null;
  }

  // The commands of all jobs go out together: ioredis sends what is asked in one turn as one batch.
  async observeAll(jobs: Subject[]): Promise<(Observation | Error)[]> {
    const seen = await Promise.allSettled(jobs.map(({ handle }) => this.#look(handle)));
    return seen.map((each) => (each.status === "fulfilled" ? each.value : new Unavailable(String(each.reason))));
  }

  async #look(handle: string): Promise<Observation> {
    const [job, stopped] = await Promise.all([this.#job(handle), this.redis.exists(stopKey(handle))]);
    if (!job) return stopped ? cancelled() : GONE;
    const state = await job.getState();
    switch (state) {
      case "completed": {
        // What was read above may be older than the state.
        const ended = (await this.#job(handle)) ?? job;
        return succeeded(ended.returnvalue ?? undefined);
      }
      case "failed": {
        if (stopped) return cancelled();
        const ended = (await this.#job(handle)) ?? job;
        return failed(ended.failedReason || "the job failed", ended.stacktrace?.at(-1) || undefined);
      }
      case "active":
        return running(progress(job.progress));
      case "unknown":
        return stopped ? cancelled() : GONE;
    }
    return queued();
  }

  async cancel(handle: string): Promise<void> {
    const job = await this.#job(handle);
    const state = await job?.getState();
    if (!job || state === "completed" || state === "failed" || state === "unknown") return;
    // First, so that a worker that takes the job now sees it.
    await this.redis.set(stopKey(handle), 1, "EX", WEEK);
    if ((await job.getState()) !== "active") {
      try {
        await job.remove();
        return;
      } catch {
        // A worker has it.
      }
    }
    await this.redis.publish(CHANNEL, handle);
  }

  async log(handle: string): Promise<string> {
    const [queue, key] = split(handle);
    const { logs } = await this.#queue(queue).getJobLogs(key);
    return logs.map((line) => `${line}\n`).join("");
  }

  async close(): Promise<void> {
    await Promise.all([...this.#queues.values()].map((queue) => queue.close()));
    this.redis.disconnect();
  }

  async #job(handle: string): Promise<Job | undefined> {
    const [queue, key] = split(handle);
    return this.#queue(queue).getJob(key);
  }

  #queue(name: string): Queue {
    let queue = this.#queues.get(name);
    if (!queue) {
      queue = new Queue(name, { connection: this.redis });
      queue.on("error", (error) => console.error(`queue ${name}:`, error.message));
      this.#queues.set(name, queue);
    }
    return queue;
  }
}

function split(handle: string): [string, string] {
  const at = handle.lastIndexOf("/");
  return [handle.slice(0, at), handle.slice(at + 1)];
}

/** Progress as `job.updateProgress({ done, total, message })` sets it. */
function progress(value: unknown): { message?: string; progress?: { done: number; total?: number } } {
  if (typeof value === "number") return value > 0 ? { progress: { done: value } } : {};
  const { done, total, message } = (value ?? {}) as { done?: number; total?: number; message?: string };
  return {
    ...(message === undefined ? {} : { message }),
    ...(done === undefined ? {} : { progress: { done, ...(total === undefined ? {} : { total }) } }),
  };
}

serve({
  name: "bullmq",
  version: "1.0.0",
  schemas: {
    config: {
      type: "object",
      required: ["url"],
      additionalProperties: false,
      properties: {
        url: { type: "string", description: "Address of Redis, such as redis://redis.internal/0" },
        queue: { type: "string", default: "default" },
      },
    },
    target: {
      type: "object",
      required: ["job"],
      additionalProperties: false,
      properties: {
        job: { type: "string", description: "Name of the job, as the workers know it" },
        queue: { type: "string" },
        attempts: { type: "integer", minimum: 1, default: 1 },
      },
    },
  },
  async connect(config: Json) {
    const { url, queue = "default" } = config as { url?: string; queue?: string };
    if (!url) throw new Config("config.url is missing; add the address of Redis");
    // A command fails at once while Redis is away: taskbridge makes the call again.
    const redis = new Redis(url, {
      maxRetriesPerRequest: 0,
      enableOfflineQueue: false,
      connectTimeout: 5000,
      commandTimeout: 5000,
      lazyConnect: true,
    });
    redis.on("error", (error) => console.error("Redis:", error.message));
    await redis.connect();
    return new Bullmq(redis, queue);
  },
});
