// A worker of the example. `cancellable` is what your own workers need: with it, a task that is cancelled stops its job.

import { type Job, UnrecoverableError, Worker } from "bullmq";
import { Redis } from "ioredis";

import { CHANNEL, stopKey } from "./stop.js";

type Processor = (job: Job, signal: AbortSignal) => Promise<unknown>;

/** How often a worker looks for the marks of its jobs, in milliseconds. */
const LOOK_MS = 2000;

/** Starts a worker whose jobs get a signal that says when they are cancelled. */
export async function cancellable(queue: string, url: string, processor: Processor): Promise<Worker> {
  const redis = new Redis(url, { maxRetriesPerRequest: null });
  const messages = redis.duplicate();
  const stop = new UnrecoverableError("cancelled");
  const worker = new Worker(
    queue,
    // BullMQ counts the parameters: only a function with three of them, and no default, gets a signal.
    async (job, _token, given) => {
      const signal = given ?? new AbortController().signal;
      const aborted = new Promise<never>((_, fail) => signal.addEventListener("abort", () => fail(stop)));
      aborted.catch(() => {});
      const mark = stopKey(`${queue}/${job.id}`);
      // Cancelled before it began, perhaps while another worker had it.
      if (await redis.exists(mark)) throw stop;
      // A message is lost while the connection is: the mark is not.
      const looks = setInterval(() => {
        redis.exists(mark).then((marked) => marked && worker.cancelJob(job.id ?? "", "cancelled"), () => {});
      }, LOOK_MS);
      return Promise.race([processor(job, signal), aborted]).finally(() => clearInterval(looks));
    },
    { connection: redis.duplicate(), concurrency: 10 },
  );
  worker.on("error", (error) => console.error(error.message));
  messages.on("message", (_, handle: string) => {
    if (handle.startsWith(`${queue}/`)) worker.cancelJob(handle.slice(queue.length + 1), "cancelled");
  });
  await messages.subscribe(CHANNEL);
  return worker;
}

const [url = "redis://127.0.0.1/0", queue = "default"] = process.argv.slice(2);
const counts = new Redis(url, { maxRetriesPerRequest: null });
await cancellable(queue, url, async (job, signal) => {
  const { label, to = 3, seconds = 300 } = job.data as { label: string; to?: number; seconds?: number };
  await counts.hincrby("began", label, 1);
  await job.log(`began ${label}`);
  switch (job.name) {
    case "count":
      for (let done = 0; done < to; done += 1) await job.updateProgress({ done, total: to, message: `row ${done}` });
      return { label, counted: to };
    case "talk":
      for (const line of ["first", "second", "third"]) await job.log(`${line} of three`);
      return label;
    case "fail":
      throw new Error(`no data for ${label}`);
    case "wait":
      await new Promise((done) => {
        const timer = setTimeout(done, seconds * 1000);
        signal.addEventListener("abort", () => clearTimeout(timer));
      });
      return label;
  }
  throw new UnrecoverableError(`there is no job ${job.name}`);
});
console.log("ready");
