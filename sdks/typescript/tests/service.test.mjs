// The HTTP service of the SDK over real sockets: its proofs, its sessions and its limits.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { connect } from "node:net";
import { test } from "node:test";

const program = new URL("service_sample.mjs", import.meta.url).pathname;
const secret = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;

async function service(t, options) {
  const child = spawn(process.execPath, [program, JSON.stringify(options)], { stdio: ["ignore", "pipe", "inherit"] });
  t.after(() => child.kill("SIGKILL"));
  const [port] = await once(child.stdout, "data");
  const post = async (body, headers) => {
    const reply = await fetch(`http://127.0.0.1:${Number(port)}/adapter`, { method: "POST", body, headers });
    const text = await reply.text();
    return { status: reply.status, body: text && JSON.parse(text), session: reply.headers.get("taskbridge-session") };
  };
  return { child, port: Number(port), post };
}

function call(method, params = {}) {
  return JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
}

function signature(body, { at = Math.floor(Date.now() / 1000), id = "m1", key = secret } = {}) {
  const signed = createHmac("sha256", Buffer.from(key.slice(6), "base64")).update(`${id}.${at}.${body}`).digest("base64");
  return { "webhook-id": id, "webhook-timestamp": String(at), "webhook-signature": `v1,${signed}` };
}

const initialize = (size, name = "t") => call("initialize", { protocol: 1, name, config: { size }, secrets: {} });
const look = call("observe_all", { group: "", jobs: [{ handle: "a" }] });

test("bearer is required", async (t) => {
  const { post } = await service(t, { bearer: "b-secret" });
  for (const headers of [{}, { authorization: "Bearer wrong" }, { authorization: "b-secret" }]) {
    assert.equal((await post(call("describe"), headers)).status, 401);
  }
  assert.equal((await post(call("describe"), { authorization: "Bearer b-secret" })).body.result.name, "sample");
});

test("signature covers time and body", async (t) => {
  const { post } = await service(t, { hmac: secret });
  const [body, now] = [call("describe"), Math.floor(Date.now() / 1000)];
  for (const headers of [
    {},
    signature(body, { key: `whsec_${Buffer.alloc(32, 8).toString("base64")}` }),
    signature(body, { at: now - 400 }),
    signature(body, { at: now + 400 }),
    signature(call("start")),
    { ...signature(body), "webhook-timestamp": String(now + 1) },
    { ...signature(body), "webhook-id": "m2" },
    { ...signature(body), "webhook-signature": "v1," },
  ]) {
    assert.equal((await post(body, headers)).status, 401);
  }
  const headers = signature(body);
  headers["webhook-signature"] = `v1,AAAA ${headers["webhook-signature"]}`;
  assert.equal((await post(body, headers)).status, 200);
});

test("session is required and shared", async (t) => {
  const { post } = await service(t, { bearer: "b" });
  const headers = { authorization: "Bearer b" };
  assert.equal((await post(look, headers)).status, 404);
  assert.equal((await post(look, { ...headers, "taskbridge-session": "unknown" })).status, 404);
  const begun = await Promise.all(Array.from({ length: 8 }, () => post(initialize(1), headers)));
  const sessions = new Set(begun.map(({ session }) => session));
  assert.equal(sessions.size, 1, "equal backends share an adapter");
  assert.ok(!sessions.has((await post(initialize(1, "other"), headers)).session));
  const reply = await post(look, { ...headers, "taskbridge-session": [...sessions][0] });
  assert.deepEqual(reply.body.result, [{ state: "gone" }]);
  assert.equal((await post(initialize(0), headers)).body.error.data.kind, "config");
});

test("wrong requests are answered", async (t) => {
  const { post } = await service(t, { bearer: "b" });
  const headers = { authorization: "Bearer b" };
  assert.equal((await post("{", headers)).body.error.code, -32700);
  assert.equal((await post("null", headers)).status, 404);
  assert.equal((await post(Buffer.alloc(17 * 1024 * 1024), headers).catch(() => ({ status: 413 }))).status, 413);
  assert.equal((await post(call("describe"), headers)).status, 200);
});

/** Sends the headers and a byte of a body, and returns the socket. */
function begin(t, port, headers, length) {
  const socket = connect(port, "127.0.0.1");
  t.after(() => socket.destroy());
  const lines = Object.entries({ host: "x", ...headers, "content-length": length }).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`POST /adapter HTTP/1.1\r\n${lines.join("")}\r\nx`);
  return socket;
}

const status = async (socket) => Number(String((await once(socket, "data"))[0]).split(" ")[1]);

test("unproven body is not kept", async (t) => {
  const [bearer, signed] = [await service(t, { bearer: "b" }), await service(t, { hmac: secret })];
  const late = signature("", { at: Math.floor(Date.now() / 1000) - 400 });
  for (const [{ port }, headers] of [[bearer, { authorization: "Bearer wrong" }], [signed, {}], [signed, late]]) {
    assert.equal(await status(begin(t, port, headers, 16_000_000)), 401);
  }
});

test("unproven bodies are bounded", async (t) => {
  const { port, post } = await service(t, { hmac: secret });
  const headers = signature("another body");
  // One of five does not fit, whichever came last.
  const requests = Array.from({ length: 5 }, () => begin(t, port, headers, 16_000_000));
  assert.equal(await Promise.race(requests.map(status)), 429);
  assert.equal((await post(call("describe"), signature(call("describe")))).status, 200);
});

test("hints go along with replies", async (t) => {
  const { post } = await service(t, { bearer: "b" });
  const headers = { authorization: "Bearer b" };
  headers["taskbridge-session"] = (await post(initialize(1), headers)).session;
  assert.deepEqual((await post(call("cancel", { handle: "a" }), headers)).body, { jsonrpc: "2.0", id: 1, result: null, changed: ["a"] });
  assert.equal((await post(look, headers)).body.changed, undefined);
});

test("secrets are required", () => {
  for (const options of [{}, { bearer: "a", hmac: secret }, { hmac: "whsec_c2hvcnQ=" }]) {
    assert.notEqual(spawnSync(process.execPath, [program, JSON.stringify(options)], { stdio: "ignore" }).status, 0);
  }
});

test("SIGTERM ends it", async (t) => {
  const { child } = await service(t, { bearer: "b" });
  child.kill("SIGTERM");
  assert.deepEqual(await once(child, "exit"), [0, null]);
});
