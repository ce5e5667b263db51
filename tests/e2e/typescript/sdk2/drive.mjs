/**
 * Drives npm `@modelcontextprotocol/client` 2.x, with `@modelcontextprotocol/ext-tasks` for the tasks of both
 * generations. See `common.mjs`.
 */

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { createTaskSessionFromClient } from "@modelcontextprotocol/ext-tasks/client";
import { Driven, MODERN, TERMINAL, library, outcome, serve, setup } from "./common.mjs";
import { RawWire } from "./raw.mjs";

const CAPABILITIES = { elicitation: { form: {} } };
const ENDPOINT = "taskbridge";
const INFO = { name: "taskbridge-e2e", version: "1.0.0" };

class Sdk2 extends Driven {
  async connect() {
    const { url, command, modern, tasks } = this.options;
    const transport = url
      ? new StreamableHTTPClientTransport(new URL(url))
      : new StdioClientTransport({ command: command[0], args: command.slice(1), env: process.env });
    this.client = new Client(INFO, {
      capabilities: CAPABILITIES,
      versionNegotiation: { mode: modern ? "auto" : "legacy" },
    });
    if (!tasks || !modern) {
      this.client.setRequestHandler("elicitation/create", ({ params }) => this.answer(params.message));
    }
    await this.client.connect(transport);
    this.spoke(this.client.getProtocolEra() === "modern" ? MODERN : this.client.getNegotiatedProtocolVersion?.());
    this.executions = new Map();
    this.session = tasks ? this.taskSession(new RawWire(transport)) : undefined;
  }

  /** What the tasks extension needs of its host: raw requests in 2026-07-28, and somebody who answers. */
  taskSession(wire) {
    const raw = {
      rawDispatch: wire.dispatch,
      v2RequestFraming: { protocolVersion: MODERN, clientInfo: INFO, clientCapabilities: CAPABILITIES },
    };
    return createTaskSessionFromClient(this.client, {
      endpointId: ENDPOINT,
      ...(this.options.modern ? raw : {}),
      onInputRequest: (request) => this.answer(request.params.message),
      onError: (error) => console.error(error),
    });
  }

  async close() {
    await this.session?.close();
    await this.client.close();
  }

  async tools() {
    const { tools } = await this.client.listTools();
    return tools.map((tool) => tool.name);
  }

  async call({ tool, arguments: args }) {
    if (!this.options.tasks || !this.options.modern) {
      return outcome(await this.client.callTool({ name: tool, arguments: args }));
    }
    return settled(await this.session.callTool(tool, args));
  }

  async start({ tool, arguments: args }) {
    const execution = await this.session.callTool(tool, args, { task: { preference: "require" } });
    if (execution.kind !== "task") throw new Error(`${tool} was not made a task`);
    const { taskId } = execution.handle;
    this.executions.set(taskId, execution);
    return { task: taskId, status: (await this.session.task(taskId).snapshot()).status };
  }

  async look({ task }) {
    const { status, statusMessage } = await this.session.task(task).snapshot();
    return { status, message: statusMessage };
  }

  async poll({ task }) {
    for (;;) {
      const { status, statusMessage, suggestedPollIntervalMs } = await this.session.task(task).snapshot();
      if (TERMINAL.includes(status)) return { status, message: statusMessage };
      await new Promise((done) => setTimeout(done, suggestedPollIntervalMs ?? 1000));
    }
  }

  async result({ task }) {
    if (!this.executions.has(task)) this.executions.set(task, await this.session.resumeTask(this.reference(task)));
    return settled(this.executions.get(task));
  }

  /** A task that was started before this client connected, or by another one. */
  reference(taskId) {
    const generation = this.options.modern ? "v2" : "v1";
    return { endpointId: ENDPOINT, generation, taskId, originalOperation: "tools/call" };
  }

  async cancel({ task }) {
    await (this.executions.get(task) ?? this.session.task(task)).cancel();
  }

  async progress({ tool, arguments: args }) {
    const steps = [];
    const onprogress = ({ progress }) => steps.push(progress);
    const got = await this.client.callTool({ name: tool, arguments: args }, { onprogress });
    return { ...outcome(got), steps };
  }

  async resources() {
    const { resources } = await this.client.listResources();
    return resources.map((resource) => resource.uri);
  }

  async read({ uri }) {
    const { contents } = await this.client.readResource({ uri });
    return contents[0].text;
  }

  async prompt({ name, arguments: args }) {
    const { messages } = await this.client.getPrompt({ name, arguments: args });
    return messages[0].content.text;
  }

  async complete({ prompt, argument, value }) {
    const ref = { type: "ref/prompt", name: prompt };
    const { completion } = await this.client.complete({ ref, argument: { name: argument, value } });
    return completion.values;
  }
}

/** How a call or a task of the tasks extension ended. */
async function settled(execution) {
  const ended = await execution.result();
  if (ended.status === "completed") return outcome(ended.result);
  // In 2025-11-25 the library fetches no result of a failed task; its user has the task's message.
  return { text: ended.error?.message ?? ended.status, structured: null, error: true, links: [] };
}

await serve(new Sdk2(setup()), library("@modelcontextprotocol/client", "@modelcontextprotocol/ext-tasks"));
