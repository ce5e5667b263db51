/** Drives npm `@modelcontextprotocol/sdk` 1.x with its experimental tasks API of 2025-11-25. See `common.mjs`. */

import { Driven, TERMINAL, library, outcome, serve, setup } from "./common.mjs";
import { ACCEPT, DECLINE, Server, pages } from "./session.mjs";

class Sdk1 extends Driven {
  async connect() {
    const server = new Server(this.options.url, this.options.command);
    let left;
    const until = new Promise((done) => (left = done));
    await new Promise((connected, failed) => {
      // The session lasts until `close`.
      const use = (peer) => {
        this.peer = peer;
        connected();
        return until;
      };
      this.session = server.connect(use, { answer: this.accepts ? ACCEPT : DECLINE });
      this.session.catch(failed);
    });
    this.leave = left;
  }

  async close() {
    this.leave();
    await this.session;
  }

  questions() {
    return this.peer.questions.map((question) => question.message);
  }

  async tools() {
    const found = await pages((cursor) => this.peer.client.listTools({ cursor }));
    return found.flatMap((page) => page.tools.map((tool) => tool.name));
  }

  async call({ tool, arguments: args }) {
    return outcome(await this.peer.call(tool, args));
  }

  async start({ tool, arguments: args }) {
    const { taskId, status } = await this.peer.start(tool, args);
    return { task: taskId, status };
  }

  async look({ task }) {
    const { status, statusMessage } = await this.peer.tasks.getTask(task);
    return { status, message: statusMessage };
  }

  async poll({ task }) {
    for (;;) {
      const { status, statusMessage, pollInterval } = await this.peer.tasks.getTask(task);
      if (TERMINAL.includes(status)) return { status, message: statusMessage };
      await new Promise((done) => setTimeout(done, pollInterval ?? 1000));
    }
  }

  async result({ task }) {
    return outcome(await this.peer.result(task));
  }

  async cancel({ task }) {
    await this.peer.tasks.cancelTask(task);
  }

  async progress({ tool, arguments: args }) {
    const steps = [];
    const onprogress = ({ progress }) => steps.push(progress);
    const got = await this.peer.client.callTool({ name: tool, arguments: args }, undefined, { onprogress });
    return { ...outcome(got), steps };
  }

  async resources() {
    const { resources } = await this.peer.client.listResources();
    return resources.map((resource) => resource.uri);
  }

  async read({ uri }) {
    const { contents } = await this.peer.client.readResource({ uri });
    return contents[0].text;
  }

  async prompt({ name, arguments: args }) {
    const { messages } = await this.peer.client.getPrompt({ name, arguments: args });
    return messages[0].content.text;
  }

  async complete({ prompt, argument, value }) {
    const ref = { type: "ref/prompt", name: prompt };
    const { completion } = await this.peer.client.complete({ ref, argument: { name: argument, value } });
    return completion.values;
  }
}

await serve(new Sdk1(setup()), library("@modelcontextprotocol/sdk"));
