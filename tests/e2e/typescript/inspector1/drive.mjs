/**
 * Drives the command line of npm `@modelcontextprotocol/inspector` 1. See `common.mjs`.
 *
 * It connects anew for each request. A server over stdio therefore ends after each, and its jobs go on without it.
 */

import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { Driven, library, outcome, serve, setup } from "./common.mjs";

const PACKAGE = "@modelcontextprotocol/inspector";
const CLI = fileURLToPath(new URL(`node_modules/${PACKAGE}/cli/build/index.js`, import.meta.url));

class Inspector extends Driven {
  async connect() {}

  async close() {}

  /** Makes one request, with these options of the command line, and parses the result. */
  request(method, ...options) {
    const { url, command } = this.options;
    const target = url ? [url] : [command[0], "--", ...command.slice(1)];
    return new Promise((done, fail) => {
      const args = [CLI, ...options, "--method", method, ...target];
      execFile(process.execPath, args, { maxBuffer: 1 << 26 }, (failed, out, err) => {
        if (failed) fail(new Error(`${method}: ${err.trim() || failed}`));
        else done(JSON.parse(out));
      });
    });
  }

  async tools() {
    const { tools } = await this.request("tools/list");
    return tools.map((tool) => tool.name);
  }

  async call({ tool, arguments: args }) {
    const pairs = Object.entries(args).map(([name, value]) => `--tool-arg=${name}=${value}`);
    return outcome(await this.request("tools/call", "--tool-name", tool, ...pairs));
  }
}

await serve(new Inspector(setup()), library(PACKAGE));
