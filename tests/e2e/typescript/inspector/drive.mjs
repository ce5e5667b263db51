/**
 * Drives `mcpdo`, the command line of npm `@modelcontextprotocol/inspector`. See `common.mjs`.
 *
 * One command of a connection runs at a time, and `tools/call` lasts until its task has ended. So calls are made on one
 * connection, and looked at from another.
 */

import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Driven, MODERN, TERMINAL, library, outcome, serve, setup } from "./common.mjs";

const PACKAGE = "@modelcontextprotocol/inspector";
const MCPDO = fileURLToPath(new URL(`node_modules/${PACKAGE}/clients/mcpdo/build/mcp-bin.js`, import.meta.url));
const HOME = mkdtempSync(join(tmpdir(), "mcpdo-"));
const ENV = { ...process.env, HOME, TMPDIR: HOME, MCP_INSPECTOR_SECRET_STORE: "memory" };

/** Runs one command to its end: what it printed, or what it complained of. */
function mcpdo(...args) {
  return new Promise((done) => {
    const child = execFile(process.execPath, [MCPDO, "--format", "json", ...args], { env: ENV }, (failed, out, err) => {
      done({ failed, out, complaint: err.trim().split("\n").at(-1) });
    });
    child.stdin.end();
  });
}

/** Runs one command that must print JSON. */
async function asked(...args) {
  const { failed, out, complaint } = await mcpdo(...args);
  if (out.trim() === "") throw new Error(`mcpdo ${args.join(" ")}: ${complaint || failed}`);
  return JSON.parse(out);
}

/** Has a daemon that no other run shares; `mcpdo private` says how to reach it, as lines for a shell. */
async function startDaemon() {
  const { out } = await mcpdo("private");
  for (const [, name, value] of out.matchAll(/^export (\w+)='(.*)'$/gm)) ENV[name] = value;
}

class Mcpdo extends Driven {
  async connect() {
    if (this.running) return;
    const { url, command, modern } = this.options;
    const era = ["--era", modern ? "modern" : "legacy"];
    const state = `XDG_STATE_HOME=${process.env.XDG_STATE_HOME}`;
    const target = url ? [url] : ["--transport", "stdio", "-e", state, "--", ...command];
    for (const connection of ["calls", "looks"]) {
      const { protocolEra } = await asked("--connection", connection, "connect", ...era, ...target);
      this.spoke(protocolEra === "modern" ? MODERN : protocolEra);
    }
    this.running = new Map();
  }

  /** Its connections are made to last from command to command, so the next scenario has the same ones. */
  async close() {}

  async tools() {
    const { tools } = await asked("@calls", "tools/list");
    return tools.map((tool) => tool.name);
  }

  /** Calls a tool and answers what it asks. Resolves to the tool's result. */
  async toEnd(tool, args, ...options) {
    let said = await mcpdo("@calls", "tools/call", tool, JSON.stringify(args), ...options);
    while (said.out.includes('"elicitationPending"')) {
      const { elicitationId, message } = JSON.parse(said.out).elicitationPending;
      const { action, content } = this.answer(message);
      const words = action === "accept" ? [JSON.stringify(content)] : ["--decline"];
      said = await mcpdo("elicitation/respond", elicitationId, ...words);
    }
    if (said.out.trim() !== "") return outcome(JSON.parse(said.out));
    // A task that failed has no result here, only an error with the task's message.
    return { text: JSON.parse(said.complaint).error.message, structured: null, error: true };
  }

  call({ tool, arguments: args }) {
    return this.toEnd(tool, args);
  }

  async start({ tool, arguments: args }) {
    const before = (await this.tasks()).map((task) => task.task_id);
    const ended = this.toEnd(tool, args, ...(this.options.modern ? [] : ["--task"]));
    // It prints no task's id. The task that was not there before is that of the call.
    for (;;) {
      const task = (await this.tasks()).find(({ task_id }) => !before.includes(task_id));
      if (task === undefined) continue;
      this.running.set(task.task_id, ended);
      return { task: task.task_id, status: task.status };
    }
  }

  async tasks() {
    const { structuredContent } = await asked("@looks", "tools/call", "task_list", "{}");
    return structuredContent.tasks;
  }

  async look({ task }) {
    const { status, statusMessage } = (await asked("@looks", "tasks/get", task)).task;
    return { status, message: statusMessage };
  }

  async poll({ task }) {
    for (;;) {
      const { status, statusMessage, suggestedPollIntervalMs } = (await asked("@looks", "tasks/get", task)).task;
      if (TERMINAL.includes(status)) return { status, message: statusMessage };
      await new Promise((done) => setTimeout(done, suggestedPollIntervalMs));
    }
  }

  async result({ task }) {
    return this.running.get(task) ?? outcome(await asked("@looks", "tasks/result", task));
  }

  async cancel({ task }) {
    await asked("@looks", "tasks/cancel", task);
    await this.running.get(task);
  }

  async resources() {
    const { resources } = await asked("@looks", "resources/list");
    return resources.map((resource) => resource.uri);
  }

  async read({ uri }) {
    const { contents } = await asked("@looks", "resources/read", uri);
    return contents[0].text;
  }

  async prompt({ name, arguments: args }) {
    const pairs = Object.entries(args).map(([key, value]) => `${key}=${value}`);
    const { messages } = await asked("@looks", "prompts/get", name, "--prompt-args", ...pairs);
    return messages[0].content.text;
  }

  async complete({ prompt, argument, value }) {
    const ref = ["--complete-ref-type", "ref/prompt", "--complete-ref", prompt];
    const what = ["--complete-arg-name", argument, "--complete-arg-value", value];
    const said = await asked("@looks", "prompts/complete", ...ref, ...what);
    return said.completion?.values ?? said.values;
  }
}

await startDaemon();
try {
  await serve(new Mcpdo(setup()), library(PACKAGE));
} finally {
  await mcpdo("daemon", "stop");
  rmSync(HOME, { recursive: true, force: true });
}
