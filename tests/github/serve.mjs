// The test GitHub: GitHub's routes over workflow runs that nektos/act really runs. README.md says what is real and what is
// simulated. It listens on 127.0.0.1 only, and ends when its input ends.
//
//     node tests/github/serve.mjs target/github

import crypto from "node:crypto";
import fs from "node:fs";
import http from "node:http";
import os from "node:os";
import path from "node:path";
import { createRequire } from "node:module";
import { Contract } from "./contract.mjs";
import { Runner, log } from "./runner.mjs";
import { Refusal, World } from "./world.mjs";

const installed = path.resolve(process.argv[2] ?? "target/github");
const need = createRequire(path.join(installed, "package.json"));
const yaml = need("js-yaml");
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "taskbridge-github-"));
const server = http.createServer((request, response) => serve(request, response).catch((error) => give(response, { status: 500, body: { message: String(error.stack) } })));
// A connection that is closed while a client sends is a fault of a network, and tests make those on purpose only.
server.keepAliveTimeout = 3_600_000;
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const base = `http://127.0.0.1:${server.address().port}`;

const links = new Map();
const apps = new Map();
const breaches = [];

/** A link as GitHub hands out for logs and artifacts: it needs no credentials, and is for a moment. */
function link(repo, bytes, type) {
    const id = crypto.randomUUID();
    if (repo.blobs) repo.broken.blobs += 1;
    links.set(id, { repo: repo.name, bytes, type });
    // By another name, so that it is another host; or one that cannot be reached.
    const host = repo.blobs === "away" ? "http://localhost:1" : base.replace("127.0.0.1", "localhost");
    return { status: 302, headers: { location: `${host}/_links/${id}` } };
}

function page(items, { per_page = "30", page = "1" }, name, body) {
    const [size, number] = [Number(per_page), Number(page)];
    return { status: 200, body: { total_count: items.length, [name]: items.slice(size * (number - 1), size * number).map(body) } };
}

const jobs = ({ world, repo, query }, run) => page([...run.jobs.values()], query, "jobs", (job) => world.jobBody(repo, run, job));

/** What each operation of GitHub's description does here. */
const OPERATIONS = {
    "repos/get": ({ world, repo }) => ({ status: 200, body: world.contract.shaped("full-repository", { id: repo.id, full_name: repo.name, default_branch: "main", private: true, permissions: { admin: false, pull: true, push: repo.push ?? true } }) }),
    "repos/get-environment": ({ world, repo, parameters }) => ({ status: 200, body: world.environmentBody(repo, parameters.environment_name) }),
    "repos/list-webhooks": ({ world, repo }) => ({ status: 200, body: (repo.webhooks ?? []).map((hook) => world.contract.shaped("hook", hook)) }),
    "actions/get-workflow": ({ world, repo, parameters }) => ({ status: 200, body: world.contract.shaped("workflow", world.workflow(repo, parameters.workflow_id)) }),
    "repos/get-content": ({ world, repo, parameters, query }) => ({ status: 200, body: world.fileBody(repo, parameters.path, query.ref) }),
    "actions/list-repo-workflows": ({ world, repo, query }) => page(repo.workflows, query, "workflows", (workflow) => world.contract.shaped("workflow", workflow)),
    "actions/create-workflow-dispatch": ({ world, repo, parameters, body, login }) => {
        if (body.return_run_details && repo.run_details === "unknown") throw new Refusal(422, 'Invalid request.\n\n"return_run_details" is not a permitted key.');
        const run = world.dispatch(repo, world.workflow(repo, parameters.workflow_id), body, login);
        if (!body.return_run_details || repo.run_details !== "always") return { status: 204 };
        const { id, url, html_url } = world.runBody(repo, run);
        return { status: 200, body: { workflow_run_id: id, run_url: url, html_url } };
    },
    "actions/list-workflow-runs": ({ world, repo, parameters, query }) => {
        const runs = world.listed(repo, world.workflow(repo, parameters.workflow_id), query);
        return page(runs, query, "workflow_runs", (run) => world.runBody(repo, run));
    },
    "actions/get-workflow-run": ({ world, repo, parameters }) => ({ status: 200, body: world.runBody(repo, world.run(repo, parameters.run_id)) }),
    "actions/get-workflow-run-attempt": ({ world, repo, parameters }) => {
        const attempt = world.attempt(world.run(repo, parameters.run_id), parameters.attempt_number);
        return { status: 200, body: world.runBody(repo, attempt) };
    },
    "actions/list-jobs-for-workflow-run-attempt": (exchange) => {
        const { world, repo, parameters } = exchange;
        return jobs(exchange, world.attempt(world.run(repo, parameters.run_id), parameters.attempt_number));
    },
    "actions/download-job-logs-for-workflow-run": ({ world, repo, parameters }) => {
        const job = world.job(repo, parameters.job_id);
        // GitHub has no log of a job that runs.
        if (job.status !== "completed") throw new Refusal(404, "Not Found");
        return link(repo, job.log ?? Buffer.from(log(job)), "text/plain; charset=utf-8");
    },
    "checks/list-annotations": ({ world, repo, parameters }) => ({
        status: 200,
        body: world.job(repo, parameters.check_run_id).annotations.map(({ level, path, line, title, message }) =>
            world.contract.shaped("check-annotation", { annotation_level: level, path, start_line: line, end_line: line, title, message }),
        ),
    }),
    "actions/list-workflow-run-artifacts": ({ world, repo, parameters, query }) =>
        page(world.artifacts(world.run(repo, parameters.run_id)), query, "artifacts", (artifact) => world.artifactBody(repo, artifact)),
    "actions/download-artifact": ({ world, repo, parameters }) => {
        const artifact = world.artifact(repo, parameters.artifact_id);
        if (artifact.expired) throw new Refusal(410, "Artifact has expired");
        return link(repo, artifact.bytes, artifact.is_plain ? "application/octet-stream" : "application/zip");
    },
    "actions/cancel-workflow-run": ({ world, repo, parameters, login }) => {
        const run = world.run(repo, parameters.run_id);
        // A job that heeds no signal, as GitHub's runners have them.
        if (run.stuck && run.status !== "completed") return { status: 202, body: {} };
        world.cancel(run, login);
        return { status: 202, body: {} };
    },
    "actions/force-cancel-workflow-run": ({ world, repo, parameters, login }) => {
        world.cancel(world.run(repo, parameters.run_id), login);
        return { status: 202, body: {} };
    },
    "actions/re-run-workflow": ({ world, repo, parameters, login }) => {
        world.rerun(world.run(repo, parameters.run_id), login);
        return { status: 201, body: {} };
    },
    "actions/re-run-workflow-failed-jobs": ({ world, repo, parameters, login }) => {
        world.rerun(world.run(repo, parameters.run_id), login);
        return { status: 201, body: {} };
    },
    "actions/get-pending-deployments-for-run": ({ world, repo, parameters, login }) => ({ status: 200, body: world.pendingBody(world.run(repo, parameters.run_id), login) }),
    "actions/review-pending-deployments-for-run": ({ world, repo, parameters, body, login }) => {
        world.review(world.run(repo, parameters.run_id), body, login);
        return { status: 200, body: [] };
    },
    "actions/get-reviews-for-run": ({ world, repo, parameters }) => ({ status: 200, body: world.reviewsBody(world.run(repo, parameters.run_id)) }),
    "apps/create-installation-access-token": ({ world, parameters, authorization }) => {
        const app = apps.get(parameters.installation_id);
        const [head, claims, signature] = authorization.replace(/^Bearer /, "").split(".");
        const right = app && signature && crypto.verify("sha256", Buffer.from(`${head}.${claims}`), app.public_key, Buffer.from(signature, "base64url"));
        if (!right) throw new Refusal(401, "A JSON web token could not be decoded");
        const token = `ghs_${crypto.randomBytes(18).toString("hex")}`;
        world.tokens.set(token, { repo: app.repo, login: "bridge[bot]", remaining: 5000, reset: Math.floor(Date.now() / 1000) + 3600, until: Date.now() + app.expires_in * 1000 });
        return { status: 201, body: { token, expires_at: new Date(Date.now() + app.expires_in * 1000).toISOString(), permissions: {} } };
    },
};

const EVENTS = ["run-requested", "run-in-progress", "run-completed", "job-in-progress", "job-completed"].map((name) => `webhook-workflow-${name}`);
const contract = await Contract.load(need, installed, Object.keys(OPERATIONS), EVENTS);
const act = path.join(installed, "venv/bin/act");
const runner = new Runner({ act, folder, yaml, zip: need("fflate").zipSync, atOnce: 6 });
const world = new World({ contract, runner, yaml, base });

/** What GitHub posts about something, signed. */
function delivery(secret, { event, body }) {
    const text = JSON.stringify(body);
    const signature = `sha256=${crypto.createHmac("sha256", secret).update(text).digest("hex")}`;
    const about = { "x-github-event": event, "x-github-delivery": crypto.randomUUID(), "x-hub-signature-256": signature };
    return { headers: { "content-type": "application/json", "user-agent": "GitHub-Hookshot/test", ...about }, body: text };
}

/** Posts what has changed to everyone who asked for it, in the way that the test wants: the first is lost, the next comes twice, the next late, and so on. */
world.changed = (repo, run) => {
    const { url, secret, ways = [] } = repo.webhook ?? {};
    if (!url) return;
    const urls = [url].flat();
    run.told ??= new Map();
    for (const job of [undefined, ...run.jobs.values()]) {
        const [key, state] = job ? [job.id, job.status] : ["run", `${run.run_attempt} ${run.status}`];
        if (run.told.get(key) === state) continue;
        run.told.set(key, state);
        const way = ways[repo.webhook.sent++ % ways.length] ?? "sent";
        const { headers, body } = delivery(secret, world.eventBody(repo, run, job));
        const to = (url) => fetch(url, { method: "POST", headers, body }).then(({ status }) => repo.webhook.answers.push(status), () => repo.webhook.answers.push(0));
        const post = () => urls.forEach(to);
        if (way === "late") setTimeout(post, 1500).unref();
        else if (way !== "lost") for (let times = way === "doubled" ? 2 : 1; times; times--) post();
    }
};

/** What tests ask for, under `/_test/`: none of it is GitHub's. */
const CONTROLS = {
    "POST repos": (body) => world.addRepo(body),
    /** An App that is installed at the repository; its private key. */
    "POST apps": ({ installation, ...app }) => {
        const encoding = { publicKeyEncoding: { type: "spki", format: "pem" }, privateKeyEncoding: { type: "pkcs1", format: "pem" } };
        const { publicKey, privateKey } = crypto.generateKeyPairSync("rsa", { modulusLength: 2048, ...encoding });
        apps.set(String(installation), { ...app, public_key: publicKey });
        return { private_key: privateKey };
    },
    /** One more user of a repository; their token. */
    "POST users": ({ repo, login }) => ({ token: world.addToken(world.repos.get(repo), login) }),
    "POST faults": ({ repo, ...fault }) => world.repos.get(repo).faults.push(fault) && {},
    "POST asked": ({ repo }) => world.repos.get(repo).asked.splice(0),
    /** Of what belongs to no repository, every test is told. */
    "POST breaches": ({ repo }) => breaches.filter((breach) => !world.repos.has(breach.repo) || world.repos.get(breach.repo) === world.repos.get(repo)),
    /** A change of what GitHub knows, such as a file, a workflow's state or a token's allowance. */
    "POST change": ({ repo: name, files, state, token, branches, push, webhooks }) => {
        const repo = world.repos.get(name);
        Object.assign(repo, { push, webhooks });
        for (const [path, text] of Object.entries(files ?? {})) world.write(repo, path, text);
        for (const [file, value] of Object.entries(state ?? {})) world.workflow(repo, file).state = value;
        for (const branch of branches ?? []) repo.refs.add(branch);
        for (const known of world.tokens.values()) if (known.repo === name) Object.assign(known, token);
        return {};
    },
    /** Another name for a repository. */
    "POST rename": ({ repo, to }) => world.rename(world.repos.get(repo), to) ?? {},
    /** What logs and artifacts are answered with from now on: a status, `away` where their host cannot be reached, or what they are. */
    "POST blobs": ({ repo, blobs }) => (world.repos.get(repo).blobs = blobs) && {},
    /** Runs that nobody runs: they are what the test says. */
    "POST runs": ({ repo: name, workflow, count = 1, ...facts }) => {
        const repo = world.repos.get(name);
        const add = () => world.addRun(repo, world.workflow(repo, workflow), { display_title: "simulated", status: "in_progress", ...facts }).id;
        return Array.from({ length: count }, add);
    },
    /** Counts of reads of runs too young to be known, of lists that were old, and of blobs that were missing. */
    "POST broken": ({ repo }) => world.repos.get(repo).broken,
    /** A webhook of a repository that posts to a URL or to each of several, or none. */
    "POST webhook": ({ repo, url, secret, ways }) => (world.repos.get(repo).webhook = { url, secret, ways, sent: 0, answers: [] }) && {},
    /** What became of the deliveries. */
    "POST deliveries": ({ repo }) => world.repos.get(repo).webhook.answers,
    /** What would be posted about a run now. */
    "POST delivery": ({ repo: name, id, secret }) => {
        const repo = world.repos.get(name);
        return delivery(secret, world.eventBody(repo, world.run(repo, String(id))));
    },
    "POST run": ({ repo: name, id, gone, size, bytes = 0, log, jobs = [], plain = {}, ...facts }) => {
        const repo = world.repos.get(name);
        const run = world.run(repo, String(id));
        if (gone) repo.runs.splice(repo.runs.indexOf(run), 1);
        if (size) run.artifacts.push({ id: world.nextId(), name: "large", size, bytes: Buffer.alloc(bytes), expired: false, created_at: run.created_at });
        for (const [name, text] of Object.entries(plain)) {
            run.artifacts.push({ id: world.nextId(), name, bytes: Buffer.from(text), is_plain: true, expired: false, created_at: run.created_at });
        }
        world.addJobs(run, jobs);
        if (log) world.failed(run, Buffer.alloc(log, "nothing of interest\n"), "\nnothing of interest\n##[error]the tray is empty\n");
        Object.assign(run, facts);
        world.touch(run);
        return {};
    },
    /** Somebody else does something at GitHub. */
    "POST review": ({ repo, id, login, ...review }) => world.review(world.run(world.repos.get(repo), String(id)), { environment_ids: world.run(world.repos.get(repo), String(id)).pending.map(({ id }) => id), comment: "", ...review }, login) ?? {},
    "POST rerun": ({ repo, id }) => world.rerun(world.run(world.repos.get(repo), String(id))) ?? {},
    /** All runs, with what each was given and handed back. */
    "POST listed": ({ repo }) => world.repos.get(repo).runs.map(({ id, path: file, inputs, status, conclusion, updated_at, output, actor, triggering_actor, cancelled_by, reviews }) => ({ id, workflow: path.basename(file, ".yml"), inputs, status, conclusion, updated_at, output: output ?? null, actor, triggering_actor: triggering_actor ?? actor, cancelled_by, reviewed_by: reviews.map(({ login }) => login) })),
    /** The runs whose title holds these words. */
    "POST count": ({ repo, title }) => world.repos.get(repo).runs.filter(({ display_title }) => display_title.includes(title)).length,
};

function give(response, { status, body, headers = {} }) {
    const bytes = body === undefined ? Buffer.alloc(0) : Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body));
    if (body !== undefined && !Buffer.isBuffer(body)) headers["content-type"] ??= "application/json; charset=utf-8";
    response.writeHead(status, { ...headers, ...(status === 204 || status === 304 ? {} : { "content-length": bytes.length }) });
    response.end(bytes);
}

/** The error as GitHub writes it. */
const refused = (status, message) => ({ status, body: { message, documentation_url: "https://docs.github.com/rest", status: String(status) } });

async function serve(request, response) {
    const url = new URL(request.url, base);
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const text = Buffer.concat(chunks).toString();
    if (url.pathname.startsWith("/_test/")) {
        const control = CONTROLS[`${request.method} ${url.pathname.slice(7)}`];
        return give(response, { status: 200, body: control(JSON.parse(text)) });
    }
    if (url.pathname.startsWith("/_links/")) {
        const held = links.get(url.pathname.slice(8));
        if (request.headers.authorization) breaches.push({ repo: held?.repo, breach: "credentials were sent to the host of a link" });
        const repo = held && world.repos.get(held.repo);
        repo?.asked.push({ operation: "link", status: request.headers.range ? 206 : 200 });
        const expired = repo?.faults.findIndex(({ operation }) => operation === "link") ?? -1;
        if (expired >= 0) repo.faults.splice(expired, 1);
        if (Number.isInteger(repo?.blobs)) return give(response, { status: repo.blobs, body: Buffer.from("<Error><Code>BlobNotFound</Code></Error>") });
        if (!held || expired >= 0) return give(response, { status: 403, body: Buffer.from("<Error><Code>AuthenticationFailed</Code></Error>") });
        const from = /^bytes=(\d+)-$/.exec(request.headers.range ?? "")?.[1];
        return give(response, { status: from ? 206 : 200, body: from ? held.bytes.subarray(Number(from)) : held.bytes, headers: { "content-type": held.type } });
    }
    // Where GitHub's redirects of renamed repositories lead.
    const byId = /^\/repositories\/(\d+)/.exec(url.pathname);
    if (byId) {
        const named = [...world.repos.values()].find(({ id }) => String(id) === byId[1]);
        if (!named) return give(response, refused(404, "Not Found"));
        url.pathname = url.pathname.replace(byId[0], `/repos/${named.name}`);
    }
    const found = contract.find(request.method, url.pathname);
    if (!found) {
        breaches.push({ breach: `${request.method} ${url.pathname}: no operation that the test GitHub has` });
        return give(response, refused(404, "Not Found"));
    }
    return exchange(request, response, url, text, found);
}

/** Whether GitHub does not know this run yet. */
function isUnknown(repo, id) {
    const isYoung = repo?.runs.some((run) => String(run.id) === id && world.isYoung(repo, run)) ?? false;
    if (isYoung) repo.broken.unknown += 1;
    return isYoung;
}

async function exchange(request, response, url, text, { operation, parameters }) {
    const authorization = request.headers.authorization ?? "";
    const token = world.tokens.get(authorization.replace(/^Bearer /, ""));
    const name = parameters.owner ? `${parameters.owner}/${parameters.repo}` : apps.get(parameters.installation_id)?.repo;
    const repo = world.repos.get(name);
    const query = Object.fromEntries(url.searchParams);
    const body = text ? JSON.parse(text) : undefined;
    const told = (who, found) => breaches.push(...found.map((breach) => ({ repo: name, who, operation: operation.id, breach })));
    told("request", contract.request(operation, { pathname: url.pathname, query, headers: request.headers, body }));
    if (!request.headers["user-agent"]) told("request", ["GitHub refuses requests without a user agent"]);

    if (repo && repo.name !== name) {
        // At the host that was asked, which may be a proxy before this server.
        const place = `http://${request.headers.host}${url.pathname.replace(`/repos/${name}`, `/repositories/${repo.id}`)}${url.search}`;
        const [status, message] = request.method === "GET" ? [301, "Moved Permanently"] : [307, "Temporary Redirect"];
        repo.asked.push({ operation: operation.id, method: request.method, status, login: token?.login ?? null, body: body ?? null });
        return give(response, { status, headers: { location: place }, body: { message, url: place } });
    }
    const at = repo?.faults.findIndex((fault) => fault.operation === operation.id) ?? -1;
    const [fault] = at >= 0 ? repo.faults.splice(at, 1) : [];
    if (fault?.kind === "silent") return;
    let answer;
    try {
        if (fault?.kind === "answer") answer = { ...refused(fault.status, fault.message), headers: { ...fault.headers } };
        else if (parameters.owner && (!token || token.until < Date.now())) answer = refused(401, "Bad credentials");
        else if (token && token.remaining <= 0) answer = refused(403, "API rate limit exceeded for user ID 1.");
        else if (parameters.owner && (!repo || token.repo !== name)) answer = refused(404, "Not Found");
        else if (isUnknown(repo, parameters.run_id)) answer = refused(404, "Not Found");
        else answer = OPERATIONS[operation.id]({ world, repo, parameters, query, body: body ?? {}, login: token?.login, authorization });
    } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        answer = refused(error.status, error.message);
    }
    answer.headers ??= {};
    if (request.method === "GET" && answer.status === 200) {
        answer.headers.etag = `W/"${crypto.createHash("sha256").update(JSON.stringify(answer.body)).digest("hex")}"`;
        if (request.headers["if-none-match"] === answer.headers.etag) answer = { status: 304, headers: answer.headers };
    }
    if (token) {
        // What has not changed is free.
        if (answer.status !== 304 && token.remaining > 0) token.remaining -= 1;
        const rate = { "x-ratelimit-limit": 5000, "x-ratelimit-remaining": token.remaining, "x-ratelimit-used": 5000 - token.remaining, "x-ratelimit-reset": token.reset, "x-ratelimit-resource": "core" };
        // Only tokens of users' that are classic have scopes.
        if (authorization.includes("ghp_")) rate["x-oauth-scopes"] = token.scopes ?? "repo";
        answer.headers = { ...rate, ...answer.headers };
    }
    answer.headers["x-github-media-type"] = "github.v3; format=json";
    const type = answer.body === undefined ? {} : { "content-type": "application/json" };
    if (fault?.kind !== "answer") told("answer", contract.answer(operation, { status: answer.status, headers: { ...type, ...answer.headers }, body: answer.body }));
    repo?.asked.push({ operation: operation.id, method: request.method, status: answer.status, login: token?.login ?? null, body: body ?? null });
    if (fault?.kind === "reply_lost") return response.destroy();
    return give(response, answer);
}

function end() {
    for (const repo of world.repos.values()) for (const run of repo.runs) if (run.status !== "completed") run.stop?.();
    fs.rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    process.exit(0);
}
process.stdin.on("end", end).on("error", end).resume();
process.on("SIGTERM", end);
console.log(`ready ${server.address().port}`);
