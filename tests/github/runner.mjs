// Runs a workflow for real, by nektos/act on this machine without containers, and keeps what GitHub would tell of it: jobs,
// steps, logs, annotations, artifacts. It must not know HTTP.

import fs from "node:fs";
import path from "node:path";
import { execFileSync, spawn } from "node:child_process";
import { createInterface } from "node:readline";

const MARKS = { success: "success", failure: "failure", skipped: "skipped", cancelled: "cancelled" };
const now = () => new Date().toISOString().replace(/\.\d+Z$/, "Z");

export class Runner {
    #waiting = [];
    #running = 0;

    constructor({ act, folder, yaml, zip, atOnce }) {
        Object.assign(this, { act, folder, yaml, zip, atOnce });
    }

    /** Runs an attempt of a run; `changed` is called whenever it is another than before. */
    start(run, changed) {
        this.#waiting.push({ run, changed });
        this.#next();
    }

    #next() {
        while (this.#running < this.atOnce && this.#waiting.length) {
            const { run, changed } = this.#waiting.shift();
            if (run.status === "completed") continue;
            this.#running += 1;
            const broken = (error) => {
                console.error(error);
                Object.assign(run, { status: "completed", conclusion: "startup_failure" });
            };
            this.#act(run, changed).catch(broken).finally(() => {
                this.#running -= 1;
                this.#next();
            });
        }
    }

    async #act(run, changed) {
        const folder = fs.mkdtempSync(path.join(this.folder, "run-"));
        const [work, left] = [path.join(folder, "work"), path.join(folder, "artifacts")];
        for (const [name, text] of run.files) {
            fs.mkdirSync(path.dirname(path.join(work, name)), { recursive: true });
            fs.writeFileSync(path.join(work, name), name === run.path ? this.#runnable(text) : text);
        }
        fs.mkdirSync(left);
        const git = (...args) => execFileSync("git", ["-c", "user.name=t", "-c", "user.email=t@t", ...args], { cwd: work, stdio: "ignore" });
        git("init", "--quiet", "--initial-branch", "main");
        git("add", "--all");
        git("commit", "--quiet", "--message", "all");

        run.status = "in_progress";
        run.run_started_at = now();
        changed();
        const workflow = this.yaml.load(run.files.get(run.path));
        const inputs = Object.entries(run.inputs).flatMap(([name, value]) => ["--input", `${name}=${value}`]);
        // Without the first, act listens on an outer address.
        const options = ["--no-cache-server", "--json", "-P", "ubuntu-latest=-self-hosted", "-W", run.path];
        const command = ["workflow_dispatch", ...options, "--env", `TEST_GITHUB_ARTIFACTS=${left}`, ...inputs];
        const env = { PATH: process.env.PATH, HOME: folder, XDG_CACHE_HOME: path.join(folder, "cache") };
        const child = spawn(this.act, command, { cwd: work, env, detached: true, stdio: ["ignore", "pipe", "ignore"] });
        run.stop = () => {
            try {
                process.kill(-child.pid, "SIGKILL");
            } catch {
                // It ended by itself.
            }
        };
        const ended = new Promise((resolve) => child.on("close", resolve).on("error", () => resolve(-1)));
        for await (const line of createInterface({ input: child.stdout })) {
            let told;
            try {
                told = JSON.parse(line);
            } catch {
                continue;
            }
            if (told.jobID) this.#hear(run, workflow, told, changed);
        }
        const code = await ended;
        this.#finish(run, left, run.cancelled ? "cancelled" : code === 0 ? "success" : "failure");
        fs.rmSync(folder, { recursive: true, force: true });
        changed();
    }

    /**
     * A workflow as act can run it here. Actions would need the network, so what these two would do is done otherwise. And act
     * does not wait for the output of a command that fails (it reads a terminal, and stops when the command ends), so that such a one
     * ends a little later.
     */
    #runnable(text) {
        const workflow = this.yaml.load(text);
        for (const step of Object.values(workflow.jobs).flatMap(({ steps }) => steps ?? [])) {
            const action = /^actions\/(checkout|upload-artifact)@/.exec(step.uses ?? "")?.[1];
            if (action) {
                const { name = "artifact", path: left } = step.with ?? {};
                const folder = `"$TEST_GITHUB_ARTIFACTS/${name}"`;
                // The files of the repository are there already.
                step.run = action === "checkout" ? "true" : `mkdir -p ${folder} && cp -r ${left} ${folder}/`;
                delete step.uses;
                delete step.with;
            }
            if (step.run) {
                // A step's name would be its first line.
                step.name ??= `Run ${step.run.split("\n")[0]}`;
                step.run = `trap '[ $? = 0 ] || sleep 0.5' EXIT\n${step.run}`;
            }
        }
        return this.yaml.dump(workflow);
    }

    #hear(run, workflow, told, changed) {
        const job = (run.jobs.get(told.job) ?? this.#job(run, workflow, told));
        const id = (told.stepID ?? told.stepid)?.[0];
        const step = id === undefined ? undefined : job.steps.find((step) => step.id === id);
        if (told.raw_output) (step ?? job.steps[0]).lines.push(`${told.time.replace("Z", ".0000000Z")} ${told.msg.replace(/\n$/, "")}`);
        if (["error", "warning", "notice"].includes(told.command)) {
            const { file = ".github", line = 1, title = "" } = told.kvPairs ?? {};
            job.annotations.push({ level: told.command === "error" ? "failure" : told.command, path: file, line: Number(line), title, message: told.arg });
            step?.lines.push(`${told.time.replace("Z", ".0000000Z")} ##[${told.command}]${told.arg}`);
        }
        if (step && /^⭐ Run/u.test(told.msg) && step.status === "queued") Object.assign(step, { status: "in_progress", started_at: told.time });
        if (step && told.stepResult) {
            Object.assign(step, { status: "completed", conclusion: MARKS[told.stepResult] ?? "failure", completed_at: told.time });
            step.started_at ??= told.time;
        }
        const exit = /^exit status (\d+)/.exec(told.msg ?? "")?.[1];
        if (exit && step) step.exit = exit;
        if (told.jobResult) {
            let conclusion = MARKS[told.jobResult] ?? "failure";
            // act has one result for a whole matrix: the steps say which of its jobs failed.
            const failed = job.steps.some((step) => step.conclusion === "failure");
            if (told.matrix && Object.keys(told.matrix).length && conclusion === "failure" && !failed) conclusion = "success";
            Object.assign(job, { status: "completed", conclusion, completed_at: told.time });
            for (const step of job.steps.filter(({ status }) => status !== "completed")) Object.assign(step, { status: "completed", conclusion: "skipped" });
        }
        changed();
    }

    #job(run, workflow, { job: key, jobID, matrix, time }) {
        const declared = workflow.jobs[jobID];
        const values = Object.values(matrix ?? {});
        const name = (declared.name ?? jobID) + (values.length ? ` (${values.join(", ")})` : "");
        const steps = (declared.steps ?? []).map((step, at) => ({ id: step.id ?? String(at), name: step.name ?? `Run ${(step.run ?? step.uses).split("\n")[0]}` }));
        const all = [{ id: "--setup-job", name: "Set up job" }, ...steps, { id: "--complete-job", name: "Complete job" }];
        const job = {
            id: run.nextId(), name, status: "in_progress", conclusion: null, created_at: time, started_at: time, completed_at: null, annotations: [],
            steps: all.map((step, at) => ({ ...step, number: at + 1, status: "queued", conclusion: null, started_at: null, completed_at: null, lines: [] })),
        };
        run.jobs.set(key, job);
        return job;
    }

    #finish(run, left, conclusion) {
        for (const job of run.jobs.values()) {
            if (job.status !== "completed") Object.assign(job, { status: "completed", conclusion, completed_at: now() });
            for (const step of job.steps) {
                if (step.status !== "completed") Object.assign(step, { status: "completed", conclusion: step.status === "queued" ? "skipped" : conclusion, completed_at: now() });
                if (step.conclusion === "failure") step.lines.push(`${now().replace("Z", ".0000000Z")} ##[error]Process completed with exit code ${step.exit ?? 1}.`);
            }
        }
        for (const name of fs.readdirSync(left)) {
            const files = {};
            for (const entry of fs.readdirSync(path.join(left, name), { recursive: true, withFileTypes: true })) {
                const file = path.join(entry.parentPath ?? entry.path, entry.name);
                if (entry.isFile()) files[path.relative(path.join(left, name), file)] = fs.readFileSync(file);
            }
            if (name === "taskbridge-output") run.output = String(Object.values(files)[0]);
            run.artifacts.push({ id: run.nextId(), name, bytes: Buffer.from(this.zip(files)), expired: false, created_at: now() });
        }
        Object.assign(run, { status: "completed", conclusion });
    }
}

/** What a job has printed, as GitHub hands it out. */
export const log = (job) => job.steps.flatMap(({ lines }) => lines.map((line) => `${line}\n`)).join("");
