/**
 * End-to-end scenarios with the TypeScript MCP client 1.x and its experimental tasks API.
 *
 *     node client.mjs [--only NAME,...] URL
 *     node client.mjs [--only NAME,...] --stdio COMMAND [ARG...]
 *
 * The server runs with `tests/e2e/taskbridge.toml`. Each scenario opens its own sessions and relies
 * on nothing that another one left. One line per scenario (`ok NAME`, or `FAIL NAME: why`), then
 * `N passed, N failed`; the exit code is 1 after a failure. Everything on the wire is said by the
 * client library: this file must not speak MCP by itself.
 */

import { parseArgs } from "node:util";
import { ErrorCode } from "@modelcontextprotocol/sdk/types.js";
import {
  ACCEPT,
  DECLINE,
  RELATED_TASK,
  Server,
  TERMINAL,
  check,
  checkRelated,
  pages,
  refused,
  same,
  text,
} from "./session.mjs";
import { Wire } from "./wire.mjs";

const SCENARIO_SECONDS = 60;
const JOB_TOOLS = ["ask_name", "count", "echo_text", "fail_job", "typed_slow"];
/** A job that no scenario waits for to end by itself. */
const ENDLESS = { to: 1000, delay_ms: 100 };

async function allTools(peer) {
  const found = await pages((cursor) => peer.client.listTools({ cursor }));
  return { tools: found.flatMap((page) => page.tools), count: found.length };
}

/** `tools/list` gives the same tools in the same order on several pages, with their task support. */
async function list(server) {
  await server.connect(async (peer) => {
    const { tools, count } = await allTools(peer);
    const names = tools.map((tool) => tool.name);
    const again = (await allTools(peer)).tools.map((tool) => tool.name);
    check(count > 1, "tools/list has one page; the scenario needs a small page size");
    check(same(names, again), "tools/list changed its order");
    check(new Set(names).size === names.length, `tools/list repeats a tool: ${names}`);
    const support = Object.fromEntries(tools.map((tool) => [tool.name, tool.execution?.taskSupport]));
    for (const name of JOB_TOOLS) check(support[name] === "optional", `taskSupport of ${name} is ${support[name]}`);
    check("task_wait" in support, "the companion tool task_wait is not listed");
    check([undefined, "forbidden"].includes(support.task_wait), "task_wait can be called as a task");
  });
}

/** A call as a task answers at once, is polled until it completed, and has its result. */
async function callAsTask(server) {
  await server.connect(async (peer) => {
    const run = await peer.run("count", { to: 3, delay_ms: 100 }, { task: { ttl: 120_000 } });
    check(run.error === undefined, `the task ended with ${run.error}`);
    check(run.created.status === "working", `a new task is ${run.created.status}`);
    check(run.created.ttl === null || run.created.ttl > 0, `ttl is ${run.created.ttl}`);
    const last = run.states.at(-1);
    check(last.status === "completed", `the task ended ${last.status}: ${last.statusMessage}`);
    check(last.createdAt === run.created.createdAt, "createdAt changed");
    check(Date.parse(last.lastUpdatedAt) >= Date.parse(run.created.lastUpdatedAt), "lastUpdatedAt went back");
    checkRelated(run.result, run.created.taskId);
    check(!run.result.isError && text(run.result) === "counted to 3", `result: ${text(run.result)}`);
  });
}

/** `tasks/result` of a working task waits, lets other requests pass, and gives the result. */
async function blockedResult(server) {
  await server.connect(async (peer) => {
    const began = performance.now();
    const task = await peer.start("count", { to: 5, delay_ms: 300 });
    let ended = false;
    const waiting = peer.result(task.taskId).finally(() => (ended = true));
    const status = await peer.tasks.getTask(task.taskId);
    check(status.status === "working", `while blocked the task is ${status.status}`);
    check(!ended, "tasks/result answered while the task is working");
    const result = await waiting;
    check(performance.now() - began > 1000, "the result came before the job could have ended");
    check(text(result) === "counted to 5", `result: ${text(result)}`);
  });
}

/** A question goes out on the `tasks/result` stream; an answer and a refusal both reach the job. */
async function elicitation(server) {
  for (const [answer, said, ended] of [
    [ACCEPT, "hello Ada", "completed"],
    [DECLINE, "declined", "failed"],
  ]) {
    // Without the GET stream, the question can travel on tasks/result only.
    const wire = new Wire({ listen: false });
    await server.connect(
      async (peer) => {
        const run = await peer.run("ask_name", {});
        const { taskId } = run.created;
        // Over stdio there is one stream, and the question may be answered before the next poll;
        // the library then fetches no result of a task that failed.
        const last = run.states.at(-1);
        const seen = server.url ? ["input_required"] : ["input_required", ended];
        check(seen.includes(last.status), `before the answer the task is ${last.status}`);
        checkQuestion(peer, taskId);
        const result = run.result ?? (await peer.result(taskId));
        checkRelated(result, taskId);
        check(text(result).includes(said), `after ${answer.action}: ${text(result)}`);
        check(Boolean(result.isError) === (ended === "failed"), `after ${answer.action}: isError ${result.isError}`);
        const { status } = await peer.tasks.getTask(taskId);
        check(status === ended, `after ${answer.action} the task is ${status}`);
      },
      { wire, answer },
    );
  }
}

/** A client that only polls is asked on its GET stream, and the task goes on. */
async function elicitationPolling(server) {
  await server.connect(async (peer) => {
    const task = await peer.start("ask_name", {});
    const status = await poll(peer, task.taskId);
    check(status.status === "completed", `the task ended ${status.status}: ${status.statusMessage}`);
    checkQuestion(peer, task.taskId);
    check(text(await peer.result(task.taskId)) === "hello Ada", "the result does not reflect the answer");
  });
}

/** A client that makes a task of its own of a question is asked for the answer there, on whichever stream it has. */
async function ownTasks(server) {
  for (const listen of [true, false]) {
    const wire = new Wire({ listen });
    await server.connect(
      async (peer) => {
        const { taskId } = await peer.start("ask_name", {});
        const result = peer.result(taskId);
        await peer.until(() => peer.own.length > 0);
        check(peer.questions[0].task.ttl > 0, "the question has no ttl");
        // It is looked at once more at least while nobody has answered.
        await new Promise((done) => setTimeout(done, 1500));
        await peer.store.storeTaskResult(peer.own[0], "completed", ACCEPT);
        check(text(await result) === "hello Ada", "the result does not reflect the answer");
        checkQuestion(peer, taskId);
      },
      { wire, makesTasks: true },
    );
  }
}

/** A client's task whose answer nobody wants any more is cancelled. */
async function ownTasksCancelled(server) {
  await server.connect(
    async (peer) => {
      const { taskId } = await peer.start("ask_name", {});
      await peer.until(() => peer.own.length > 0);
      await peer.tasks.cancelTask(taskId);
      while ((await peer.store.getTask(peer.own[0])).status !== "cancelled") {
        await new Promise((done) => setTimeout(done, 50));
      }
    },
    { makesTasks: true },
  );
}

/** Polls to the end at the interval the server asks for, and never opens `tasks/result`. */
async function poll(peer, taskId) {
  for (;;) {
    const status = await peer.tasks.getTask(taskId);
    if (TERMINAL.includes(status.status)) return status;
    await new Promise((done) => setTimeout(done, status.pollInterval ?? 1000));
  }
}

/** Exactly one question came, with the form of `ask_name` and the task it belongs to. */
function checkQuestion(peer, taskId) {
  check(peer.questions.length === 1, `${peer.questions.length} questions came in place of one`);
  const [question] = peer.questions;
  check([undefined, "form"].includes(question.mode), `the question's mode is ${question.mode}`);
  check(same(Object.keys(question.requestedSchema.properties), ["name"]), "the question has another form");
  const related = question._meta?.[RELATED_TASK];
  check(same(related, { taskId }), `the question carries related-task ${JSON.stringify(related)}`);
}

/** A cancelled task stays cancelled, releases who waits for it, and cannot be cancelled twice. */
async function cancel(server) {
  await server.connect(async (peer) => {
    const task = await peer.start("count", ENDLESS);
    const waiting = peer.result(task.taskId);
    const { status } = await peer.tasks.cancelTask(task.taskId);
    check(status === "cancelled", `tasks/cancel answers ${status}`);
    check((await waiting).isError, "the blocked tasks/result of a cancelled task is no error");
    await refused(ErrorCode.InvalidParams, peer.tasks.cancelTask(task.taskId));
    check((await peer.tasks.getTask(task.taskId)).status === "cancelled", "the task did not stay cancelled");
    const result = await peer.result(task.taskId);
    check(result.isError && text(result), "tasks/result of a cancelled task does not say why");
  });
}

/** `tasks/list` gives every own task once, over several pages. */
async function listPages(server) {
  await server.connect(async (peer) => {
    const own = [];
    for (let n = 0; n < 12; n += 1) own.push((await peer.start("echo_text", { text: `note ${n}` })).taskId);
    const found = await pages((cursor) => peer.tasks.listTasks(cursor));
    const listed = found.flatMap((page) => page.tasks.map((task) => task.taskId));
    check(found.length > 2, `12 tasks came on ${found.length} pages; the scenario needs a small page size`);
    check(new Set(listed).size === listed.length, "tasks/list repeats a task");
    const missing = own.filter((taskId) => !listed.includes(taskId));
    check(missing.length === 0, `${missing.length} own tasks are not listed`);
    await refused(ErrorCode.InvalidParams, peer.tasks.listTasks("no cursor of this server"));
  });
}

/** A job that fails makes its task `failed`, with the reason in the status and in the result. */
async function failingJob(server) {
  await server.connect(async (peer) => {
    const run = await peer.run("fail_job", { code: 3 });
    const last = run.states.at(-1);
    check(last.status === "failed", `the task ended ${last.status}`);
    // The library's loop fetches no result of a failed task, so this is all that its user sees.
    check(last.statusMessage?.includes("on purpose"), `statusMessage is ${last.statusMessage}`);
    const result = await peer.result(run.created.taskId);
    check(result.isError && text(result).includes("on purpose"), `result: ${text(result)}`);
    check((await peer.call("fail_job", { code: 3 })).isError, "a plain call that failed is no error");
  });
}

/** A call without a task waits for a quick job and answers with its result. */
async function plainCall(server) {
  await server.connect(async (peer) => {
    const result = await peer.call("echo_text", { text: "grüße, 世界" });
    check(!result.isError && text(result) === "grüße, 世界", `result: ${text(result)}`);
  });
}

/** A slow typed tool answers with a handle that fits its schema; `task_wait` brings the result. */
async function typedHandle(server) {
  await server.connect(async (peer) => {
    // The library validates against the schemas of the last page it has seen, and of no other.
    let page = await peer.client.listTools();
    while (!page.tools.some((tool) => tool.name === "typed_slow" && tool.outputSchema)) {
      check(page.nextCursor, "no page of tools/list has typed_slow with an output schema");
      page = await peer.client.listTools({ cursor: page.nextCursor });
    }
    const handle = (await peer.call("typed_slow", { ms: 3500 })).structuredContent;
    check(typeof handle.task_id === "string" && handle.status === "working", `handle: ${JSON.stringify(handle)}`);
    let answer = handle;
    while (answer && "task_id" in answer) {
      const waited = await peer.call("task_wait", { task_id: handle.task_id });
      check(!waited.isError, `task_wait: ${text(waited)}`);
      answer = waited.structuredContent;
    }
    check(same(answer, { answer: 42 }), `task_wait brought ${JSON.stringify(answer)}`);
    const result = await peer.result(handle.task_id);
    check(same(result.structuredContent, { answer: 42 }), "tasks/result brought something else");
  });
}

/** A task outlives its session, whether that ended properly or was dropped. */
async function reconnect(server) {
  for (const end of [true, false]) {
    const task = await server.connect((peer) => peer.start("count", { to: 20, delay_ms: 100 }), { end });
    await server.connect(async (peer) => {
      const status = await peer.tasks.getTask(task.taskId);
      check(status.createdAt === task.createdAt, "another task came back");
      check(text(await peer.result(task.taskId)) === "counted to 20", "the result was lost");
    });
  }
}

/** A session that was dropped goes on under its id, without `initialize`; a deleted one is gone. */
async function resumeSession(server) {
  const start = async (peer, transport) => {
    const task = await peer.start("count", { to: 10, delay_ms: 100 });
    return { taskId: task.taskId, sessionId: transport.sessionId };
  };
  const left = await server.connect(start, { end: false });
  const read = async (peer) => check(text(await peer.result(left.taskId)) === "counted to 10", "the result was lost");
  await server.connect(read, { sessionId: left.sessionId });
  const late = async (peer) => peer.tasks.getTask(left.taskId).catch((error) => error);
  const error = await server.connect(late, { sessionId: left.sessionId, end: false, faults: true });
  check(error.code === 404, `a session after its DELETE answers ${JSON.stringify(error)}`);
}

/** A broken `tasks/result` stream is resumed by the library with `Last-Event-ID`. */
async function resumeStream(server) {
  const wire = new Wire({ cut: "tasks/result" });
  const use = async (peer) => {
    const task = await peer.start("count", { to: 10, delay_ms: 100 });
    check(text(await peer.result(task.taskId)) === "counted to 10", "the result was lost");
    check(wire.resumed.length === 1, `the stream was resumed ${wire.resumed.length} times`);
  };
  await server.connect(use, { wire, faults: true });
}

/** The token of the call gets strictly increasing progress after the task was created. */
async function progress(server) {
  await server.connect(async (peer) => {
    const steps = [];
    const run = await peer.run("count", { to: 20, delay_ms: 100 }, { onprogress: (step) => steps.push(step) });
    check(run.error === undefined, `the task ended with ${run.error}`);
    check(steps.length >= 2, `${steps.length} progress notifications came`);
    const done = steps.map((step) => step.progress);
    check(
      done.every((step, n) => n === 0 || done[n - 1] < step),
      `progress does not increase: ${done}`,
    );
    check(done.at(-1) <= 20 && steps.at(-1).total === 20, `progress ran to ${done.at(-1)}`);
  });
}

/** The origin session is told when its task ends, with the whole task. */
async function statusNotifications(server) {
  await server.connect(async (peer) => {
    // Long enough for the library to have opened its GET stream before the end.
    const task = await peer.start("count", { to: 20, delay_ms: 100 });
    await peer.until(() => peer.statuses.some((seen) => seen.status === "completed"));
    check(
      peer.statuses.every((seen) => seen.taskId === task.taskId),
      "a foreign task was announced",
    );
    const last = peer.statuses.at(-1);
    check(last.createdAt === task.createdAt, "the notification is of another task");
    check(last._meta?.[RELATED_TASK] === undefined, "a status notification must not carry related-task");
  });
}

/** Refused requests are JSON-RPC errors, after which the session still works. */
async function errors(server) {
  await server.connect(async (peer) => {
    await refused(ErrorCode.InvalidParams, peer.tasks.getTask("no such task"));
    await refused(ErrorCode.InvalidParams, peer.result("no such task"));
    await refused(ErrorCode.InvalidParams, peer.tasks.cancelTask("no such task"));
    await refused(ErrorCode.InvalidParams, peer.start("no_such_tool", {}));
    await peer.client.ping();
  });
}

/** Over stdio there are no session ids, and there is no stream to resume. */
const HTTP_ONLY = { resume_session: resumeSession, resume_stream: resumeStream };
const SCENARIOS = {
  list,
  call_as_task: callAsTask,
  blocked_result: blockedResult,
  elicitation,
  elicitation_polling: elicitationPolling,
  own_tasks: ownTasks,
  own_tasks_cancelled: ownTasksCancelled,
  cancel,
  list_pages: listPages,
  failing_job: failingJob,
  plain_call: plainCall,
  typed_handle: typedHandle,
  reconnect,
  progress,
  status_notifications: statusNotifications,
  errors,
};

/** Runs one scenario, and fails it after its time. */
async function limited(scenario, server) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no end after ${SCENARIO_SECONDS} s`)), SCENARIO_SECONDS * 1000);
  });
  await Promise.race([scenario(server), late]).finally(() => clearTimeout(timer));
}

async function run(server, only) {
  const scenarios = server.url ? { ...SCENARIOS, ...HTTP_ONLY } : SCENARIOS;
  const names = only.length > 0 ? only : Object.keys(scenarios);
  const unknown = names.find((name) => !Object.hasOwn(scenarios, name));
  if (unknown) throw new Error(`unknown scenario ${unknown}; known: ${Object.keys(scenarios).join(", ")}`);
  let failed = 0;
  for (const name of names) {
    try {
      await limited(scenarios[name], server);
      console.log(`ok ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`FAIL ${name}: ${String(error).replaceAll("\n", " ")}`);
    }
  }
  console.log(`${names.length - failed} passed, ${failed} failed`);
  return failed > 0 ? 1 : 0;
}

function options() {
  // Everything behind --stdio belongs to the server's command, also what looks like an option.
  const args = process.argv.slice(2);
  const at = args.indexOf("--stdio");
  const command = at < 0 ? [] : args.splice(at).slice(1);
  const { values, positionals } = parseArgs({ args, allowPositionals: true, options: { only: { type: "string" } } });
  if (positionals.length > 1 || (positionals.length === 1) === command.length > 0) {
    throw new Error("usage: client.mjs [--only NAME,...] (URL | --stdio COMMAND [ARG...])");
  }
  return { server: new Server(positionals[0], command), only: (values.only ?? "").split(",").filter(Boolean) };
}

try {
  const { server, only } = options();
  // A scenario that ran out of time may still hold connections open.
  process.exit(await run(server, only));
} catch (error) {
  console.error(error.message);
  process.exit(2);
}
