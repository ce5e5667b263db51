// Tests of the adapter {{name}}, over the wire as taskbridge speaks to it.

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { freshKey, Program, spec, stateOf } from "taskbridge-adapter/testing";

let program;
let folder;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "adapter-"));
  program = await Program.open([process.execPath, new URL("../dist/adapter.js", import.meta.url).pathname], { folder });
});
after(async () => {
  await program.stop();
  await rm(folder, { recursive: true });
});

test("job succeeds", async () => {
  const handle = await program.start({ does: "succeed" }, { text: "hello" });
  const seen = await program.wait(handle);
  assert.deepEqual(seen.state, { succeeded: { content: [{ type: "text", text: "hello" }] } });
  assert.deepEqual(await program.wait(handle), seen);
});

test("job fails", async () => {
  const seen = await program.wait(await program.start({ does: "fail" }, { text: "x" }));
  assert.equal(stateOf(seen), "failed");
  assert.equal(seen.message, "no data for x");
});

test("same key is one job", async () => {
  const key = freshKey();
  assert.equal(await program.call("find", spec({}, {}, key)), null);
  await program.start({ does: "succeed" }, { text: "first" }, key);
  await program.start({ does: "succeed" }, { text: "second" }, key, true);
  assert.deepEqual(await program.call("find", spec({}, {}, key)), { handle: key });
  assert.match(JSON.stringify(await program.wait(key)), /first/);
});

test("job is cancelled", async () => {
  const handle = await program.start({ does: "succeed" }, { seconds: 300 });
  await program.call("cancel", { handle });
  assert.equal(stateOf(await program.wait(handle)), "cancelled");
});

test("unknown job is gone", async () => {
  await program.call("cancel", { handle: "unknown" });
  assert.deepEqual(await program.observe("unknown"), [{ state: "gone" }]);
});
