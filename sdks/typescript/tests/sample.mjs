// An adapter over an engine in memory, for the tests: its jobs do what their arguments say.

import {
  cancelled, Config, failed, GONE, Limited, queued, Rejected, running, serve, succeeded, Uncertain,
} from "taskbridge-adapter";

const jobs = new Map();
let release;
const released = new Promise((done) => (release = done));

class Sample {
  once = "key";
  keyLastsMs = 60_000;
  identity = "sample here";
  has = ["changed", "notes"];

  constructor(host) {
    this.host = host;
  }

  start(job) {
    switch (job.arguments.start) {
      case "reject":
        throw new Rejected("no room\nfor this\u001b[1m job");
      case "limit":
        throw new Limited("slow down", { afterMs: 1500 });
      case "lost":
        throw new Uncertain("ask the operator", { final: true });
      case "break":
        throw new Error("the reply was lost");
      case "nothing":
        return undefined;
    }
    if (!jobs.has(job.key)) jobs.set(job.key, job.arguments);
    return job.key;
  }

  find(job) {
    return jobs.has(job.key) ? { handle: job.key, first: queued() } : null;
  }

  async observe(handle) {
    if (handle === "slow") await released;
    if (!jobs.has(handle)) return GONE;
    const does = jobs.get(handle);
    switch (does.state) {
      case "succeeded":
        return {
          ...succeeded(does.result),
          notes: [{ n: 1, level: "info", data: "it began" }],
          link: "https://engine.example/1",
        };
      case "bigint":
        return succeeded({ n: 2n ** 80n });
      case "circle": {
        const circle = {};
        circle.circle = circle;
        return succeeded(circle);
      }
      case "deep": {
        let value = null;
        for (let depth = 0; depth < 500; depth += 1) value = [value];
        return succeeded(value);
      }
      case "many":
        return succeeded(Array(does.values).fill(0));
      case "surrogate":
        return succeeded("\ud800 and \\ud800");
      case "large":
        return succeeded("x".repeat(900_000));
      case "too large":
        return succeeded("x".repeat(2_000_000));
      case "failed":
        return failed("line one\nline two");
      case "cancelled":
        return cancelled();
      case "broken":
        throw new RangeError("cannot look");
      case "asks":
        return running({
          message: "asks",
          progress: { done: 1, total: 4 },
          questions: [{ id: "q", message: "Go on?", schema: { type: "object", properties: {} } }],
        });
    }
    return undefined;
  }

  cancel(handle, by) {
    if (handle === "slow") return release();
    jobs.set(handle, { state: "cancelled" });
    this.host.changed(handle);
    this.host.note(`${by?.name ?? "nobody"} cancelled`, "warning");
  }

  answer(handle, question, answer) {
    return question === "q" && answer.action === "accept" ? "accepted" : "too_late";
  }

  log() {
    return "one\ntwo\nthree\n";
  }

  artifact(handle, name) {
    return name === "a.bin" ? Uint8Array.from({ length: 10 }, (_, at) => at) : null;
  }

  discover() {
    return [{ name: "count", target: { place: "here" }, input_schema: { type: "object" } }];
  }

  checkUp(tools) {
    return [{ what: "sample", verdict: "ok", says: `${tools.length} tools` }];
  }
}

serve({
  name: "sample",
  version: "2.1",
  secrets: ["token"],
  schemas: { target: { type: "object" } },
  connect(config, secrets, host) {
    console.log("hello from console.log");
    void Promise.reject(new Error("nobody looks"));
    if (config.size > 9) throw new Config("config.size is larger than 9; choose a smaller one");
    return new Sample(host, secrets.token);
  },
});
