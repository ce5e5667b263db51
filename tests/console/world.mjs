// A folder with the real server, a simulated engine in a process of its own, and a small MCP client. It knows
// nothing of browsers.

import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtemp, mkdir, readdir, readFile, readlink, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { hostname, tmpdir } from 'node:os';
import path from 'node:path';

// Limit for anything that must happen. CI stalls for seconds at a time.
export const LIMIT = 60_000;
export const PROGRAM = process.env.TASKBRIDGE ?? path.resolve('target/debug/taskbridge');
export const LINK = 'https://engine.example/runs/4711';

// Text that an engine or a caller may send: none of it may become markup, a link, or an order to a terminal.
export const HOSTILE = [
    '<script>window.pwned = 1</script>',
    '<img src=x onerror="window.pwned = 1">',
    '<svg onload="window.pwned = 1"></svg>',
    '"><a href="javascript:window.pwned = 1">click</a>',
    '[click](javascript:window.pwned=1) ![x](http://127.0.0.1:9/x)',
    '\u001b]8;;https://evil.example\u0007click\u001b]8;;\u0007 \u001b[31mred\u001b[0m',
    'gpj.\u202Eexe.innocent\u202C \u2066x\u2069',
    '\u0000\u0007\u0008 tab\t {{7*7}} ${7*7}',
].join(' ');

const KEYS = { ann: 'key-of-ann', ben: 'key-of-ben', oscar: 'key-of-oscar' };

export async function until(what, check, limit = LIMIT) {
    const deadline = Date.now() + limit;
    for (;;) {
        const found = await check();
        if (found) return found;
        if (Date.now() > deadline) throw new Error(`this does not happen: ${what}`);
        await new Promise((resolve) => setTimeout(resolve, 50));
    }
}

// Nothing is left behind, whichever way the tests end.
const children = new Set();
process.on('exit', () => children.forEach((child) => child.kill('SIGKILL')));

// Starts a program and resolves with the first match of its output; it rejects if the program ends before.
function begin(args, folder, pattern) {
    const child = spawn(PROGRAM, args, {
        cwd: folder, stdio: ['ignore', 'pipe', 'pipe'],
        env: { PATH: '/usr/bin:/bin', HOME: folder },
    });
    children.add(child);
    child.said = '';
    const started = new Promise((resolve, reject) => {
        const timer = setTimeout(() => reject(new Error(`it does not start: ${child.said}`)), LIMIT);
        const read = (data) => {
            child.said += data;
            const match = pattern.exec(child.said);
            if (match) { clearTimeout(timer); resolve(match); }
        };
        child.stdout.on('data', read);
        child.stderr.on('data', read);
        child.on('error', reject);
        child.on('exit', (code) => { clearTimeout(timer); reject(new Error(`it ended with ${code}: ${child.said}`)); });
    });
    child.ended = new Promise((resolve) => child.on('exit', () => { children.delete(child); resolve(); }));
    return [child, started];
}

export class World {
    // Starts an engine and a server. With `keys` there are three principals, else a single user. `extra` is more config,
    // `store` and `console` are those tables, and `engineAddress` is an engine that runs already.
    static async start({ keys = false, extra = '', console = '', engineAddress, store = 'path = "state/taskbridge.db"' } = {}) {
        const world = new World();
        Object.assign(world, { keys, extra, console, store, engineAddress });
        world.folder = await mkdtemp(path.join(tmpdir(), 'taskbridge-console-'));
        await mkdir(path.join(world.folder, 'work'));
        if (!engineAddress) await world.startEngine();
        world.port = 0;
        await world.serve();
        return world;
    }

    async startEngine() {
        const engine = ['adapter-helper', 'sim', '--listen', '127.0.0.1:0', '--mode', 'keyed', '--journal',
            path.join(this.folder, 'journal')];
        const [child, started] = begin(engine, this.folder, /listening on (\S+)/);
        this.engine = child;
        this.engineAddress = (await started)[1];
    }

    // Completes the work of all simulated jobs: a test decides when a job ends, since a machine may stall for longer than
    // any job should take.
    async hasten() {
        const [host, port] = this.engineAddress.split(':');
        const socket = connect(Number(port), host);
        socket.end('{"control":{"do":"hasten"}}\n');
        const reply = await new Promise((resolve, reject) => { socket.on('data', resolve); socket.on('error', reject); });
        if (!String(reply).startsWith('{"counts"')) throw new Error(`the engine says: ${reply}`);
    }

    // Creates a file in the folder that local jobs run in.
    touch(name) {
        return writeFile(path.join(this.folder, 'work', name), '');
    }

    // Starts the server: the first time at a free port, later at the same one.
    async serve() {
        const file = path.join(this.folder, 'taskbridge.toml');
        await writeFile(file, this.config());
        const pattern = this.keys || this.auth ? /127\.0\.0\.1:(\d+)\/mcp/ : /console at (\S+)/;
        const [child, started] = begin(['serve', '--config', file], this.folder, pattern);
        this.server = child;
        await started;
        this.port = Number(/127\.0\.0\.1:(\d+)/.exec(child.said)[1]);
        this.origin = `http://127.0.0.1:${this.port}`;
    }

    // Returns the address that signs in the next browser of the single user.
    signInAddress() {
        return [...this.server.said.matchAll(/console at (\S+)/g)].at(-1)[1];
    }

    async kill() {
        this.server.kill('SIGKILL');
        await this.server.ended;
    }

    async stop() {
        const children = [this.server, this.engine].filter(Boolean);
        children.forEach((child) => child.kill('SIGKILL'));
        await Promise.all(children.map((child) => child.ended));
        await until('all processes have ended', async () => {
            const left = await this.processes();
            // One may have ended since.
            for (const id of left) try { process.kill(id, 'SIGKILL'); } catch { /* it has */ }
            return left.length === 0;
        });
        await rm(this.folder, { recursive: true, force: true });
    }

    // Returns the ids of the processes in this folder, or with it in their command: jobs outlive their server.
    async processes() {
        const isOurs = async (id) => {
            const [cwd, command] = await Promise.all([readlink(`/proc/${id}/cwd`), readFile(`/proc/${id}/cmdline`, 'utf8')]);
            return cwd.startsWith(this.folder) || command.includes(this.folder);
        };
        const ids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number);
        const ours = await Promise.all(ids.map((id) => isOurs(id).catch(() => false)));
        return ids.filter((_, n) => ours[n]);
    }

    config() {
        const digest = (name) => createHash('sha256').update(KEYS[name]).digest('hex');
        const key = (name) => `[[auth.keys]]\nprincipal = "${name}"\nsha256 = "${digest(name)}"\n`;
        const auth = this.auth ?? (this.keys ? `mode = "api_keys"\n${key('ann')}${key('ben')}${key('oscar')}\n[access]\noperate = { principals = ["oscar"] }\n` : 'single_user = true\n');
        return `
[server]
listen = "127.0.0.1:${this.port}"
max_polls_per_second = 100000

[auth]
${auth}
[console]
enabled = true
${this.console}

[audit]
to = ["store"]

[store]
${this.store}

${this.extra}
[reconciler]
lease = "2s"
quickest_look = "50ms"
slowest_look = "500ms"

[backends.engine]
kind = "sim"
address = "${this.engineAddress}"

[backends.here]
kind = "local"
working_dir = "work"
host = "${hostname()}"

[tools.deploy]
title = "Deploy to production"
description = "Builds the revision, runs its checks and rolls it out, region by region."
backend = "engine"
target = {}
keep_arguments = true
parameters.revision = { type = "string", description = "A branch, a tag or a commit." }
parameters.token = { type = "string", required = false, sensitive = true, description = "Never kept." }
parameters.text = { type = "string", required = false, description = "What the run prints at its end." }
parameters.delay_ms = { type = "integer", default = 1000, minimum = 0, description = "How long it takes." }
parameters.steps = { type = "integer", required = false }
parameters.outcome = { type = "string", enum = ["succeed", "fail", "gone"], default = "succeed" }
parameters.link = { type = "string", required = false }

[tools.approve]
title = "Release with approval"
description = "Waits for a person before it goes on."
backend = "engine"
parameters.delay_ms = { type = "integer", default = 0 }
[tools.approve.target.question]
message = "Roll out to all regions?"
at_once = true
schema = { type = "object", properties = { regions = { type = "integer", title = "Regions", minimum = 1, maximum = 9 }, note = { type = "string", title = "Note" } }, required = ["regions"] }

[tools.hostile]
description = ${JSON.stringify(HOSTILE)}
backend = "engine"
[tools.hostile.target]
text = ${JSON.stringify(HOSTILE)}
link = "javascript:window.pwned=1"
notes = [${JSON.stringify(HOSTILE)}]
files = { "x<script>.svg" = "<svg xmlns='http://www.w3.org/2000/svg' onload='window.pwned=1'/>", "page.html" = "<script>window.pwned=1</script>" }
[tools.hostile.target.question]
message = ${JSON.stringify(HOSTILE)}
at_once = true
schema = { type = "object", properties = { choice = { type = "string", title = ${JSON.stringify(HOSTILE)}, description = ${JSON.stringify(HOSTILE)}, enum = ["<b>a</b>", "javascript:window.pwned=1"] } } }

[tools.shell]
description = "Runs in a shell, and prints a log."
backend = "here"
[tools.shell.target]
command = ["sh", "-c", '''
echo "begins"
printf '<script>window.pwned=1</script>\\033[31mred\\033[0m \\033]8;;https://evil.example\\007x\\033]8;;\\007\\n'
echo "error: no space left on device"
echo "<b>report</b>" >"$TASKBRIDGE_ARTIFACTS/report.html"
exit 3''']
`;
    }

    client(name) {
        return new Client(`${this.origin}/mcp`, name && KEYS[name]);
    }

    key(name) {
        return KEYS[name];
    }
}

// Speaks as much MCP 2025-11-25 as is needed.
export class Client {
    constructor(url, key) {
        Object.assign(this, { url, key, id: 0 });
    }

    async send(message, headers = {}) {
        const session = this.session
            ? { 'mcp-session-id': this.session, 'mcp-protocol-version': '2025-11-25' } : {};
        const authorization = this.key ? { authorization: `Bearer ${this.key}` } : {};
        return fetch(this.url, {
            method: 'POST', body: JSON.stringify(message),
            headers: {
                'content-type': 'application/json', accept: 'application/json, text/event-stream',
                ...session, ...authorization, ...headers,
            },
        });
    }

    async request(method, params) {
        if (!this.session && method !== 'initialize') {
            const hello = {
                protocolVersion: '2025-11-25', capabilities: { elicitation: { form: {}, url: {} } },
                clientInfo: { name: 'test', version: '1' },
            };
            await this.request('initialize', hello);
            await (await this.send({ jsonrpc: '2.0', method: 'notifications/initialized' })).text();
        }
        const id = ++this.id;
        const response = await this.send({ jsonrpc: '2.0', id, method, params });
        this.session ??= response.headers.get('mcp-session-id');
        const text = await response.text();
        const events = text.split('\n').filter((line) => line.startsWith('data: {')).map((line) => line.slice(6));
        const answers = (events.length ? events : [text]).map((event) => JSON.parse(event));
        const answer = answers.find((answer) => answer.id === id);
        if (!answer?.result) throw new Error(`${method}: ${response.status} ${text}`);
        return answer.result;
    }

    // Starts a task and returns its id.
    async start(tool, args = {}) {
        return (await this.request('tools/call', { name: tool, arguments: args, task: {} })).task.taskId;
    }

    get(task) {
        return this.request('tasks/get', { taskId: task });
    }

    // Waits until a task has this status.
    until(task, status) {
        return until(`task ${task} is ${status}`, async () => (await this.get(task)).status === status);
    }
}
