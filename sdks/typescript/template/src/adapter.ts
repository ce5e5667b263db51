// taskbridge adapter {{name}}. Its engine is a folder: a job is a file that says when it ends. Replace that by your engine.

import { randomUUID } from "node:crypto";
import { existsSync, statSync } from "node:fs";
import { link, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename, join, resolve } from "node:path";

import {
  type Adapter, cancelled, Config, failed, GONE, type Job, type Observation, running, serve, succeeded,
} from "taskbridge-adapter";

class Folder implements Adapter {
  // A second start under a key returns the first job. If your engine has no such key, write "none".
  readonly once = "key";
  readonly identity: string;

  constructor(readonly folder: string) {
    this.identity = `{{name}} ${folder}`;
  }

  /** Starts the job, or returns the job that an earlier start under this key started. */
  async start(job: Job): Promise<string> {
    const { text = "", seconds = 0 } = job.arguments as { text?: string; seconds?: number };
    const made = join(this.folder, `.${randomUUID()}`);
    await writeFile(made, JSON.stringify({ does: job.target.does, text, ends: Date.now() + seconds * 1000 }));
    try {
      await link(made, join(this.folder, job.key));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    } finally {
      await rm(made);
    }
    return job.key;
  }

  /** Returns the handle of the job with this key, or `null`. It starts nothing. */
  find(job: Job): string | null {
    return existsSync(join(this.folder, job.key)) ? job.key : null;
  }

  /** Returns the state of a job. An ended job gives the same every time. */
  async observe(handle: string): Promise<Observation> {
    const at = join(this.folder, basename(handle));
    if (!existsSync(at)) return GONE;
    const job = JSON.parse(await readFile(at, "utf8")) as { does: string; text: string; ends: number };
    const cancel = statSync(`${at}.cancel`, { throwIfNoEntry: false });
    if (cancel && cancel.mtimeMs < job.ends) return cancelled();
    if (Date.now() < job.ends) return running({ message: "waiting" });
    return job.does === "succeed" ? succeeded(job.text) : failed(`no data for ${job.text}`);
  }

  /** Asks the engine to stop a job. For a job that has ended or is unknown, it does nothing. */
  async cancel(handle: string): Promise<void> {
    if ((await this.observe(handle)).state === "running") await writeFile(join(this.folder, `${basename(handle)}.cancel`), "");
  }
}

serve({
  name: "{{name}}",
  version: "0.1.0",
  schemas: {
    config: {
      type: "object",
      required: ["folder"],
      additionalProperties: false,
      properties: { folder: { type: "string", description: "Folder of the jobs" } },
    },
    target: {
      type: "object",
      required: ["does"],
      additionalProperties: false,
      properties: { does: { enum: ["succeed", "fail"] } },
    },
  },
  async connect(config, _secrets, host) {
    if (typeof config.folder !== "string") throw new Config("config.folder is missing; name the folder of the jobs");
    const folder = resolve(host.configDir, config.folder);
    await mkdir(folder, { recursive: true });
    return new Folder(folder);
  },
});
