// What an adapter written with the SDK says on the wire.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { after, before, test } from "node:test";

import { freshKey, Program, spec, stateOf } from "taskbridge-adapter/testing";

const sample = [process.execPath, new URL("sample.mjs", import.meta.url).pathname];
const text = (text) => ({ content: [{ type: "text", text }] });
let program;
let log = "";

before(async () => {
  program = await Program.open(sample, { size: 3 }, { token: "t" }, { stdio: "pipe" });
  program.process.stderr.on("data", (chunk) => (log += chunk));
});
after(() => program.stop());

const start = (args) => program.start({ place: "here" }, args);

async function fails(method, params, kind) {
  let error;
  await assert.rejects(program.call(method, params), (caught) => {
    error = caught.error;
    return caught.kind === kind;
  });
  return error;
}

test("initialize names what the adapter has", async () => {
  assert.deepEqual(program.initialized, {
    protocol: 1, once: "key", key_lasts_ms: 60_000, identity: "sample here", schemas: { target: { type: "object" } },
    abilities: ["answer", "log", "artifact", "discover", "check_up", "changed", "notes"],
  });
  assert.deepEqual((await program.call("describe")).secrets, ["token"]);
});

test("wrong config names the member", async () => {
  const open = Program.open(sample, { size: 10 }, {}, { stdio: ["pipe", "pipe", "ignore"] });
  await assert.rejects(open, (error) => error.kind === "config" && error.message.includes("config.size"));
});

test("console.log goes to the log", async () => {
  while (!log.includes("nobody looks")) await once(program.process.stderr, "data");
  assert.match(log, /^hello from console.log\n/);
});

test("same key is the same job", async () => {
  const key = freshKey();
  assert.equal(await program.call("find", spec({}, {}, key)), null);
  for (const mayExist of [false, true, true]) assert.equal(await program.start({}, {}, key, mayExist), key);
  assert.deepEqual(await program.call("find", spec({}, {}, key)), { handle: key, first: { state: "queued" } });
});

test("states are those of the protocol", async () => {
  const deep = `${"[".repeat(500)}null${"]".repeat(500)}`;
  const notes = [{ n: 1, level: "info", data: "it began" }];
  for (const [args, expected] of [
    [{}, { state: "gone" }],
    [{ state: "succeeded", result: [] }, { state: { succeeded: { ...text("[]"), structured: [] } }, notes, link: "https://engine.example/1" }],
    [{ state: "bigint" }, { state: { succeeded: { ...text(`{"n":"${2n ** 80n}"}`), structured: { n: String(2n ** 80n) } } } }],
    [{ state: "circle" }, { state: { succeeded: text("[object Object]") } }],
    [{ state: "surrogate" }, { state: { succeeded: text("\ufffd and \\ud800") } }],
    [{ state: "deep" }, { state: { succeeded: text(deep) } }],
    [{ state: "failed" }, { state: { failed: text("line one\nline two") }, message: "line one line two" }],
    [{ state: "cancelled" }, { state: { cancelled: {} } }],
    [{ state: "broken" }, { error: { kind: "unavailable", message: "RangeError: cannot look" } }],
    [{ state: "asks" }, {
      state: "running", message: "asks", progress: { done: 1, total: 4 },
      questions: [{ id: "q", message: "Go on?", schema: { type: "object", properties: {} } }],
    }],
  ]) {
    assert.deepEqual(await program.observe(await start(args)), [expected], JSON.stringify(args));
  }
  assert.deepEqual(await program.observe("unknown"), [{ state: "gone" }]);
});

test("many jobs are answered in order", async () => {
  const handles = [];
  for (let round = 0; round < 20; round += 1) {
    for (const state of ["failed", "broken", "cancelled"]) handles.push(await start({ state }));
  }
  const seen = (await program.observe(...handles)).map((each) => (each.error ? "error" : stateOf(each)));
  assert.deepEqual(seen, Array(20).fill(["failed", "error", "cancelled"]).flat());
  assert.deepEqual(await program.observe(), []);
});

test("large outputs fit into a line", async () => {
  const [one] = await program.observe(await start({ state: "too large" }));
  assert.match(one.state.succeeded.content[0].text, /at most 1048576 can be returned/);
  const handles = await Promise.all(Array.from({ length: 6 }, () => start({ state: "large" })));
  const seen = await program.observe(...handles);
  assert.deepEqual(seen.map((each) => Boolean(each.state)), [true, true, true, false, false, false]);
});

// The server refuses a message of more than 400,000 values.
test("many values fit into a message", async () => {
  const [one] = await program.observe(await start({ state: "many", values: 100_001 }));
  assert.equal(one.state.succeeded.structured, undefined);
  const handles = await Promise.all(Array.from({ length: 5 }, () => start({ state: "many", values: 90_000 })));
  const seen = await program.observe(...handles);
  assert.deepEqual(seen.map((each) => Boolean(each.state)), [true, true, true, false, false]);
});

test("errors have kinds", async () => {
  const asked = (what, mayExist = false) => spec({}, { start: what }, freshKey(), mayExist);
  assert.equal((await fails("start", asked("reject"), "rejected")).message, "no room for this [1m job");
  assert.equal((await fails("start", asked("limit"), "limited")).data.after_ms, 1500);
  assert.equal((await fails("start", asked("lost"), "uncertain")).data.final, true);
  // The engine may have taken the job before the reply was lost.
  await fails("start", asked("break"), "uncertain");
  await fails("start", asked("break", true), "unavailable");
  await fails("start", asked("nothing"), "uncertain");
});

test("protocol errors have codes", async () => {
  for (const [method, params, code] of [["dance", {}, -32601], ["forget", { handle: "a" }, -32601], ["cancel", {}, -32602]]) {
    assert.equal((await fails(method, params, "")).code, code);
  }
  for (const line of ["{", "[".repeat(100_000), "[]", "7", "null", '{"method":7,"id":1}', '{"method":"unknown"}']) {
    program.process.stdin.write(`${line}\n`);
  }
  assert.deepEqual(await program.observe("unknown"), [{ state: "gone" }], "it still answers");
});

test("slow call blocks no other", async () => {
  const slow = [1, 2, 3, 4].map(() => program.observe("slow"));
  assert.deepEqual(await program.observe("unknown"), [{ state: "gone" }]);
  // They end when this call is served.
  await program.call("cancel", { handle: "slow" });
  assert.deepEqual((await Promise.all(slow)).flat(), Array(4).fill({ state: "gone" }));
});

test("abilities answer", async () => {
  const handle = await start({ state: "asks" });
  program.notifications.length = 0;
  await program.call("cancel", { handle, by: { name: "ann", new: 1 } });
  assert.deepEqual(program.notifications.map((each) => each.params), [{ jobs: [handle] }, { level: "warning", text: "ann cancelled" }]);
  const answer = { handle, question: "q", answer: { action: "accept", content: {} } };
  assert.equal(await program.call("answer", answer), "accepted");
  assert.equal(await program.call("answer", { ...answer, question: "p" }), "too_late");
  for (const [wanted, text, cut] of [
    [{ max_bytes: 100 }, "one\ntwo\nthree\n", false],
    [{ max_bytes: 11 }, "two\nthree\n", true],
    [{ max_bytes: 10 }, "two\nthree\n", true],
    [{ max_bytes: 2 }, "e\n", true],
    [{ max_bytes: 100, search: "TWO" }, "two\n", false],
  ]) {
    assert.deepEqual(await program.call("log", { handle, ...wanted }), { text, cut }, JSON.stringify(wanted));
  }
  const part = await program.call("artifact", { handle, name: "a.bin", offset: 8, max_bytes: 5 });
  assert.deepEqual(part, { data: Buffer.from([8, 9]).toString("base64"), size: 10 });
  assert.equal(await program.call("artifact", { handle, name: "b", offset: 0, max_bytes: 5 }), null);
  assert.equal((await program.call("discover"))[0].name, "count");
  assert.equal((await program.call("check_up", { tools: [{ tool: "a", target: {} }] }))[0].says, "1 tools");
});

test("message in pieces is one message", async () => {
  const line = `${JSON.stringify({ jsonrpc: "2.0", id: 1, method: "describe", params: { text: "\u00e4".repeat(300_000) } })}\n`;
  const done = spawnSync(sample[0], [sample[1]], { input: line, encoding: "utf8", timeout: 60_000 });
  assert.equal(done.status, 0, "the end of input ends the program");
  assert.equal(JSON.parse(done.stdout).result.name, "sample");
});
