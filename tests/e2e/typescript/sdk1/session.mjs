/**
 * Sessions for the end-to-end scenarios of `client.mjs`, and small checks.
 *
 * A `Server` opens sessions over Streamable HTTP or stdio with the client library; a `Peer` is one
 * session and keeps what the server sent on it without being asked. It must not decide what is
 * right: that is said by the scenarios.
 */

import { isDeepStrictEqual } from "node:util";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { InMemoryTaskStore } from "@modelcontextprotocol/sdk/experimental/tasks/stores/in-memory.js";
import {
  CallToolResultSchema,
  ElicitRequestSchema,
  McpError,
  TaskStatusNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";

export const RELATED_TASK = "io.modelcontextprotocol/related-task";
export const TERMINAL = ["completed", "failed", "cancelled"];
export const ACCEPT = { action: "accept", content: { name: "Ada" } };
export const DECLINE = { action: "decline" };

export const same = isDeepStrictEqual;

/** Fails the scenario. */
export function check(holds, why) {
  if (!holds) throw new Error(why);
}

/** The text blocks of a tool result, without the line end that a command prints. */
export function text(result) {
  const blocks = result.content.filter((block) => block.type === "text");
  return blocks
    .map((block) => block.text)
    .join("")
    .replace(/\n+$/, "");
}

/** Waits for a request that must end with the JSON-RPC error `code`. */
export async function refused(code, request) {
  const error = await request.then(
    () => undefined,
    (reason) => reason,
  );
  check(error !== undefined, `the request was accepted in place of error ${code}`);
  check(error instanceof McpError && error.code === code, `${error} in place of error ${code}`);
}

/** Every page of a list, in order. */
export async function pages(fetchPage) {
  const found = [await fetchPage(undefined)];
  while (found.at(-1).nextCursor !== undefined) found.push(await fetchPage(found.at(-1).nextCursor));
  return found;
}

/** One session, and what the server has sent on it without being asked. */
export class Peer {
  statuses = [];
  questions = [];
  /** What the library could not read, match or send. */
  problems = [];
  #changed = later();

  /** The client's own tasks, one of each question, if it makes them; whoever has it answers them. */
  own = [];

  constructor(answer, makesTasks) {
    const capabilities = { elicitation: { form: {} } };
    if (makesTasks) {
      capabilities.tasks = { cancel: {}, requests: { elicitation: { create: {} } } };
      this.store = new InMemoryTaskStore();
    }
    this.client = new Client(
      { name: "taskbridge-e2e", version: "1.0.0" },
      { capabilities, taskStore: this.store },
    );
    this.client.onerror = (error) => this.problems.push(error);
    this.client.setRequestHandler(ElicitRequestSchema, async (request, { taskStore, taskRequestedTtl }) => {
      this.questions.push(request.params);
      if (!makesTasks) return answer;
      const task = await taskStore.createTask({ ttl: taskRequestedTtl, pollInterval: 500 });
      this.own.push(task.taskId);
      this.nudge();
      return { task };
    });
    this.client.setNotificationHandler(TaskStatusNotificationSchema, (notification) => {
      this.statuses.push(notification.params);
      this.nudge();
    });
  }

  /** The library's experimental tasks API. */
  get tasks() {
    return this.client.experimental.tasks;
  }

  nudge() {
    this.#changed.resolve();
    this.#changed = later();
  }

  /** Waits for messages until the condition holds; the scenario's time limit ends it. */
  async until(holds) {
    while (!holds()) await this.#changed.promise;
  }

  /** Starts a task and leaves it; the library's stream is given up after its first message. */
  async start(tool, args, task = {}) {
    for await (const message of this.tasks.callToolStream({ name: tool, arguments: args }, undefined, { task })) {
      if (message.type === "taskCreated") return message.task;
      throw message.error ?? new Error(`${tool} answered with ${message.type} in place of a task`);
    }
  }

  /** Runs a task through the library's own loop: create, poll, and fetch the result. */
  async run(tool, args, options = {}) {
    const seen = { states: [] };
    const stream = this.tasks.callToolStream({ name: tool, arguments: args }, undefined, { task: {}, ...options });
    for await (const message of stream) {
      if (message.type === "taskCreated") seen.created = message.task;
      else if (message.type === "taskStatus") seen.states.push(message.task);
      else seen[message.type] = message[message.type];
    }
    if (seen.created === undefined) throw seen.error ?? new Error(`${tool} was not made a task`);
    return seen;
  }

  async result(taskId) {
    const result = await this.tasks.getTaskResult(taskId, CallToolResultSchema);
    checkRelated(result, taskId);
    return result;
  }

  call(tool, args) {
    return this.client.callTool({ name: tool, arguments: args });
  }
}

/** A result of `tasks/result` names its task. */
export function checkRelated(result, taskId) {
  const related = result._meta?.[RELATED_TASK];
  check(same(related, { taskId }), `tasks/result carries related-task ${JSON.stringify(related)}`);
}

function later() {
  let resolve;
  const promise = new Promise((done) => (resolve = done));
  return { promise, resolve };
}

/** Where the server is. A session over stdio is a server process of its own. */
export class Server {
  constructor(url, command) {
    this.url = url;
    this.command = command;
  }

  /**
   * Opens a session for `use` and leaves it afterwards.
   *
   * `end: false` leaves without DELETE, as a client that crashed does. `sessionId` goes on in a
   * session that was left so. `wire` brings HTTP faults; `faults: true` tolerates what the library
   * then complains of. With `makesTasks`, questions become tasks of the client's own.
   */
  async connect(use, { wire, end = true, sessionId, answer = ACCEPT, makesTasks = false, faults = false } = {}) {
    const peer = new Peer(answer, makesTasks);
    const transport = this.url
      ? new StreamableHTTPClientTransport(new URL(this.url), { fetch: wire?.fetch, sessionId })
      : new StdioClientTransport({ command: this.command[0], args: this.command.slice(1), env: process.env });
    await peer.client.connect(transport);
    try {
      const value = await use(peer, transport);
      check(faults || peer.problems.length === 0, `the library complains: ${peer.problems[0]}`);
      return value;
    } finally {
      if (this.url && end) await transport.terminateSession();
      await peer.client.close();
      peer.store?.cleanup();
    }
  }
}
