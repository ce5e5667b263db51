// Repositories, tokens and runs: what the test GitHub knows, and what GitHub would say of it. It must not know HTTP, nor
// how a workflow is run.

import crypto from "node:crypto";

const now = () => new Date().toISOString().replace(/\.\d+Z$/, "Z");
const blob = (text) => crypto.createHash("sha1").update(`blob ${Buffer.byteLength(text)}\0`).update(text).digest("hex");

/** What GitHub refuses with. */
export class Refusal extends Error {
    constructor(status, message) {
        super(message);
        this.status = status;
    }
}

export class World {
    #ids = 1000;

    constructor({ contract, runner, yaml, base }) {
        Object.assign(this, { contract, runner, yaml, base, repos: new Map(), tokens: new Map() });
    }

    nextId = () => ++this.#ids;

    /** Called with a repository and a run of it that has changed. */
    changed = () => {};

    /**
     * A repository with these files, and environments that somebody must approve: `{ NAME: { reviewers, wait_timer } }`. For `lag`
     * milliseconds, a new run is unknown and a list stays as it is.
     */
    addRepo({ files, environments = {}, reviewer = true, run_details = "always", lag = 0 }) {
        const name = `octo-org/repo-${this.nextId()}`;
        const token = `ghp_${crypto.randomBytes(18).toString("hex")}`;
        const repo = { id: this.nextId(), name, files: new Map(), refs: new Set(["main"]), run_details, lag, lists: new Map(), broken: { unknown: 0, old: 0, blobs: 0 }, runs: [], asked: [], faults: [], environments: new Map(), workflows: [] };
        for (const [environment, rules] of Object.entries(environments)) {
            repo.environments.set(environment, { id: this.nextId(), name: environment, reviewers: ["octocat"], wait_timer: 0, ...rules });
        }
        for (const [path, text] of Object.entries(files)) this.write(repo, path, text);
        this.repos.set(name, repo);
        this.tokens.set(token, { repo: name, login: reviewer ? "octocat" : "mallory", remaining: 5000, reset: Math.floor(Date.now() / 1000) + 3600 });
        return { repo: name, token };
    }

    /** Gives a repository another name. The one that it had leads to it. */
    rename(repo, name) {
        for (const known of this.tokens.values()) if (known.repo === repo.name) known.repo = name;
        repo.name = name;
        this.repos.set(name, repo);
    }

    /** A token of one more user, who may write to the repository. */
    addToken(repo, login) {
        const token = `ghp_${crypto.randomBytes(18).toString("hex")}`;
        this.tokens.set(token, { repo: repo.name, login, remaining: 5000, reset: Math.floor(Date.now() / 1000) + 3600 });
        return token;
    }

    /** Changes a file, or deletes it. A run goes on with the files that it began with. */
    write(repo, path, text) {
        repo.files = new Map(repo.files);
        repo.workflows = repo.workflows.filter((workflow) => text !== null || workflow.path !== path);
        if (text === null) return repo.files.delete(path);
        const isNew = path.startsWith(".github/workflows/") && !repo.files.has(path);
        if (isNew) repo.workflows.push({ id: this.nextId(), name: path, path, state: "active" });
        return repo.files.set(path, text);
    }

    workflow(repo, id) {
        const found = repo.workflows.find((workflow) => String(workflow.id) === id || workflow.path.endsWith(`/${id}`));
        if (!found) throw new Refusal(404, "Not Found");
        return found;
    }

    run(repo, id) {
        const found = repo.runs.find((run) => String(run.id) === id);
        if (!found) throw new Refusal(404, "Not Found");
        return found;
    }

    isYoung = (repo, run) => Date.now() - run.born < repo.lag;

    /** The runs of a workflow, newest first: as they were up to the repository's lag ago. */
    listed(repo, workflow, { event, branch }) {
        const key = JSON.stringify([workflow.id, event, branch]);
        const last = repo.lists.get(key);
        if (last && Date.now() - last.at < repo.lag) {
            repo.broken.old += 1;
            return last.runs;
        }
        const fits = (run) => run.workflow === workflow && (!event || run.event === event) && (!branch || run.head_branch === branch);
        const runs = repo.runs.filter((run) => fits(run) && !this.isYoung(repo, run)).map((run) => ({ ...run }));
        repo.lists.set(key, { at: Date.now(), runs });
        return runs;
    }

    /** Takes a dispatch as GitHub does, or refuses it in GitHub's words. */
    dispatch(repo, workflow, { ref, inputs = {} }, login) {
        if (!repo.refs.has(ref)) throw new Refusal(422, `No ref found for: ${ref}`);
        const parsed = this.yaml.load(repo.files.get(workflow.path));
        const triggers = typeof parsed.on === "string" ? { [parsed.on]: null } : Array.isArray(parsed.on) ? Object.fromEntries(parsed.on.map((name) => [name, null])) : parsed.on;
        if (!("workflow_dispatch" in triggers)) throw new Refusal(422, "Workflow does not have 'workflow_dispatch' trigger");
        if (workflow.state !== "active") throw new Refusal(422, "Cannot trigger a 'workflow_dispatch' on a disabled workflow");
        const declared = triggers.workflow_dispatch?.inputs ?? {};
        const unexpected = Object.keys(inputs).filter((name) => !(name in declared));
        if (unexpected.length) throw new Refusal(422, `Unexpected inputs provided: ${JSON.stringify(unexpected)}`);
        const given = {};
        for (const [name, input] of Object.entries(declared)) {
            const value = inputs[name] ?? input?.default;
            if (input?.required && (value === undefined || value === "")) throw new Refusal(422, `Required input '${name}' not provided`);
            if (input?.type === "choice" && value !== undefined && !input.options.includes(value)) {
                throw new Refusal(422, `Provided value '${value}' for input '${name}' not in the list of allowed values`);
            }
            if (value !== undefined) given[name] = String(value);
        }
        const title = (parsed["run-name"] ?? parsed.name ?? workflow.path).replace(/\${{\s*inputs\.([\w-]+)\s*}}/g, (_, name) => given[name] ?? "");
        const run = this.addRun(repo, workflow, { display_title: title, name: parsed.name, head_branch: ref, inputs: given, actor: login });
        const gates = Object.values(parsed.jobs).map((job) => job.environment?.name ?? job.environment).filter((name) => repo.environments.has(name));
        run.pending = [...new Set(gates)].map((name) => repo.environments.get(name));
        if (run.pending.length) run.status = "waiting";
        else this.runner.start(run, () => this.touch(run));
        return run;
    }

    addRun(repo, workflow, facts) {
        const run = {
            id: this.nextId(), born: Date.now(), run_number: repo.runs.length + 1, workflow, path: workflow.path, files: repo.files, jobs: new Map(), artifacts: [], reviews: [], past: [], nextId: this.nextId, pending: [],
            repo, inputs: {}, status: "queued", conclusion: null, run_attempt: 1, head_branch: "main", created_at: now(), updated_at: now(), run_started_at: now(), event: "workflow_dispatch", ...facts,
        };
        repo.runs.unshift(run);
        this.changed(repo, run);
        return run;
    }

    touch(run) {
        run.updated_at = now();
        this.changed(run.repo, run);
    }

    /** Gives a run a job that has failed, with a log of this end. */
    failed(run, log, end) {
        const at = now();
        log.write(end, log.length - end.length);
        const job = { id: this.nextId(), name: "work", status: "completed", conclusion: "failure", created_at: at, started_at: at, completed_at: at, steps: [], annotations: [], log };
        run.jobs.set("work", job);
    }

    /** Gives a run jobs that have ended: `{ name, conclusion, annotations, log }`. */
    addJobs(run, jobs) {
        const at = now();
        for (const { name, conclusion = "success", annotations = [], log = "" } of jobs) {
            const times = { created_at: at, started_at: at, completed_at: at };
            const steps = [{ name: "Run it", number: 1, status: "completed", conclusion, started_at: at, completed_at: at, lines: [] }];
            run.jobs.set(name, { id: this.nextId(), name, status: "completed", conclusion, ...times, steps, annotations, log: Buffer.from(log) });
        }
    }

    /** The artifacts of a run, those of all its attempts: GitHub lists them together. */
    artifacts = (run) => [...run.past, run].flatMap(({ artifacts }) => artifacts);

    cancel(run, login) {
        if (run.status === "completed") throw new Refusal(409, "Cannot cancel a workflow run that is completed.");
        run.cancelled = true;
        run.cancelled_by = login;
        if (run.stop) run.stop();
        else Object.assign(run, { status: "completed", conclusion: "cancelled", pending: [] });
        this.touch(run);
    }

    review(run, { environment_ids, state, comment }, login) {
        const reviewed = run.pending.filter(({ id }) => environment_ids.includes(id));
        if (reviewed.length !== environment_ids.length) throw new Refusal(422, "No pending deployment requests to approve or reject");
        if (reviewed.some(({ reviewers }) => !reviewers.includes(login))) throw new Refusal(403, "Resource not accessible by personal access token");
        run.reviews.push({ state, comment, login, environments: reviewed });
        run.pending = run.pending.filter(({ id }) => !environment_ids.includes(id));
        if (state === "rejected") Object.assign(run, { status: "completed", conclusion: "failure", pending: [] });
        else if (!run.pending.length) {
            run.status = "queued";
            this.runner.start(run, () => this.touch(run));
        }
        this.touch(run);
    }

    rerun(run, login) {
        if (run.status !== "completed") throw new Refusal(403, "This workflow is already running");
        run.past.push({ ...run });
        run.triggering_actor = login ?? run.triggering_actor;
        Object.assign(run, { run_attempt: run.run_attempt + 1, status: "queued", conclusion: null, jobs: new Map(), artifacts: [], cancelled: false, stop: undefined });
        this.runner.start(run, () => this.touch(run));
        this.touch(run);
    }

    attempt(run, number) {
        const found = [...run.past, run].find(({ run_attempt }) => String(run_attempt) === number);
        if (!found) throw new Refusal(404, "Not Found");
        return found;
    }

    // ------------------------------------------------------------------------------------------- as GitHub says it

    runBody(repo, run) {
        const url = `${this.base}/repos/${repo.name}/actions/runs/${run.id}`;
        const { id, run_attempt, status, conclusion, display_title, head_branch, created_at, updated_at, run_started_at, event, path } = run;
        const facts = { id, name: run.name ?? "run", run_attempt, status, conclusion, display_title, head_branch, created_at, updated_at, run_started_at, event, path };
        const user = (login) => (login ? this.contract.shaped("simple-user", { login }) : undefined);
        const users = run.actor ? { actor: user(run.actor), triggering_actor: user(run.triggering_actor ?? run.actor) } : {};
        const links = { url, html_url: `https://github.com/${repo.name}/actions/runs/${id}`, jobs_url: `${url}/jobs` };
        const [owner, name] = repo.name.split("/");
        return this.contract.shaped("workflow-run", {
            ...facts, ...links, ...users, run_number: run.run_number, workflow_id: run.workflow.id, head_sha: blob(repo.name),
            repository: { id: repo.id, name, full_name: repo.name, owner: { login: owner } },
        });
    }

    jobBody(repo, run, job) {
        const { id, name, status, conclusion, created_at, started_at, completed_at } = job;
        const steps = job.steps.map(({ name, number, status, conclusion, started_at, completed_at }) => ({ name, number, status, conclusion, started_at, completed_at }));
        return this.contract.shaped("job", {
            id, name, status, conclusion, created_at, started_at, completed_at, steps, run_id: run.id, run_attempt: run.run_attempt, runner_name: "test", labels: ["ubuntu-latest"],
            html_url: `https://github.com/${repo.name}/actions/runs/${run.id}/job/${id}`, check_run_url: `${this.base}/repos/${repo.name}/check-runs/${id}`,
        });
    }

    /** What a webhook would tell of a run now, or of a job of it. */
    eventBody(repo, run, job) {
        const action = (status) => ({ queued: "requested", completed: "completed" })[status] ?? "in_progress";
        const repository = { id: repo.id, full_name: repo.name };
        if (!job) {
            const told = action(run.status);
            const facts = { action: told, workflow_run: this.runBody(repo, run), workflow: run.workflow, repository };
            return { event: "workflow_run", body: this.contract.shaped(`webhook-workflow-run-${told.replace("_", "-")}`, facts) };
        }
        const told = job.status === "completed" ? "completed" : "in_progress";
        const facts = { action: told, workflow_job: this.jobBody(repo, run, job), repository };
        return { event: "workflow_job", body: this.contract.shaped(`webhook-workflow-job-${told.replace("_", "-")}`, facts) };
    }

    job(repo, id) {
        for (const run of repo.runs.flatMap((run) => [run, ...run.past])) {
            for (const job of run.jobs.values()) if (String(job.id) === id) return job;
        }
        throw new Refusal(404, "Not Found");
    }

    artifact(repo, id) {
        const found = repo.runs.flatMap(this.artifacts).find((artifact) => String(artifact.id) === id);
        if (!found) throw new Refusal(404, "Not Found");
        return found;
    }

    artifactBody(repo, { id, name, bytes, size, expired, created_at }) {
        const url = `${this.base}/repos/${repo.name}/actions/artifacts/${id}`;
        return this.contract.shaped("artifact", {
            id, name, size_in_bytes: size ?? bytes.length, expired, url, archive_download_url: `${url}/zip`, created_at, expires_at: created_at, updated_at: created_at,
        });
    }

    fileBody(repo, path, ref) {
        const text = repo.files.get(path);
        if (text === undefined || (ref && !repo.refs.has(ref))) throw new Refusal(404, "Not Found");
        const facts = { type: "file", encoding: "base64", content: Buffer.from(text).toString("base64").replace(/(.{60})/g, "$1\n"), sha: blob(text) };
        return this.contract.shaped("content-file", { ...facts, path, name: path.split("/").pop(), size: Buffer.byteLength(text) });
    }

    environmentBody(repo, name) {
        const found = repo.environments.get(name);
        if (!found) throw new Refusal(404, "Not Found");
        const rule = { id: found.id, node_id: "", type: "required_reviewers", prevent_self_review: false, reviewers: [] };
        return this.contract.shaped("environment", { id: found.id, name, protection_rules: found.reviewers.length ? [rule] : [], deployment_branch_policy: null });
    }

    pendingBody(run, login) {
        return run.pending.map(({ id, name, reviewers, wait_timer }) =>
            this.contract.shaped("pending-deployment", {
                environment: { id, name, node_id: "", url: "", html_url: "" }, wait_timer, wait_timer_started_at: wait_timer ? run.created_at : null,
                current_user_can_approve: reviewers.includes(login), reviewers: reviewers.map((login) => ({ type: "User", reviewer: this.contract.shaped("simple-user", { login }) })),
            }),
        );
    }

    reviewsBody(run) {
        return run.reviews.map(({ state, comment, login, environments }) =>
            this.contract.shaped("environment-approvals", {
                state, comment, user: this.contract.shaped("simple-user", { login }), environments: environments.map(({ id, name }) => ({ id, name })),
            }),
        );
    }
}
