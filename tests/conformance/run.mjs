/**
 * Runs the official conformance suite against a real server that serves the tools of this folder.
 *
 *     node run.mjs [--killed] [--only SET,..] TASKBRIDGE SUITE
 *
 * TASKBRIDGE is the program, SUITE the folder that the suite's packages were installed in. With --killed, the server is
 * killed (-9) and started again after every scenario, over what it has kept; without, it serves all of them. A set is
 * a revision's requirements, or `tasks`: the scenarios of the tasks extension.
 *
 * The exit code is 0 only if every scenario of the sets was run and every check in it passed: one that was skipped, or
 * only warns, has not.
 */
import { spawn, spawnSync } from 'node:child_process';
import { cpSync, createWriteStream, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

/** The sets, and how many scenarios each has. */
const SETS = { '2025-11-25': 31, '2026-07-28': 37, tasks: 10 };
/** Scenarios that the suite runs with a set and does not score: here they must pass all the same. */
const UNSCORED = { '2025-11-25': ['server-sse-polling'] };
/** A scenario that holds no test in this version of the suite: its one check says so, and is skipped. */
const WITHOUT_TEST = 'tasks-status-notifications';
/** Longer than a server takes to start on a busy machine, in milliseconds. */
const START = 60_000;
/** Longer than jobs take to stop that were cancelled, in milliseconds. */
const STOP = 20_000;

const HERE = dirname(fileURLToPath(import.meta.url));

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: { killed: { type: 'boolean', default: false }, only: { type: 'string' } },
});
const sets = options.only?.split(',') ?? Object.keys(SETS);
const unknown = sets.filter((set) => !(set in SETS));
if (positionals.length !== 2 || unknown.length > 0) {
  console.error('usage: run.mjs [--killed] [--only SET,..] TASKBRIDGE SUITE; sets:', Object.keys(SETS).join(', '));
  process.exit(2);
}
const [program, suiteFolder] = positionals;
const suite = join(suiteFolder, 'node_modules/@modelcontextprotocol/conformance');

/** A server over a copy of this folder, and a state of its own. */
class Server {
  constructor(work) {
    this.log = createWriteStream(join(work, 'server.log'), { flags: 'a' });
    this.config = join(work, 'config/taskbridge.toml');
    this.state = join(work, 'state');
  }

  async start() {
    const env = { ...process.env, XDG_STATE_HOME: this.state };
    const stdio = ['ignore', 'pipe', 'pipe'];
    this.child = spawn(program, ['serve', '--config', this.config], { env, stdio });
    this.ended = new Promise((resolve) => this.child.once('close', (code, signal) => resolve(signal ?? code)));
    this.child.stderr.pipe(this.log, { end: false });
    const listens = new Promise((resolve, reject) => {
      createInterface({ input: this.child.stdout }).on('line', (line) => {
        const url = /http:\/\/127\.0\.0\.1:\d+\/mcp/.exec(line);
        if (url) resolve(url[0]);
      });
      this.ended.then((how) => reject(new Error(`the server ended (${how}) before it listened`)));
      setTimeout(() => reject(new Error('the server does not say where it listens')), START).unref();
    });
    this.url = await listens;
  }

  async stop(signal) {
    this.child.kill(signal);
    return this.ended;
  }
}

/** Runs the suite, and gives what it printed. What it found is in the folder `out`. */
async function run(out, ...args) {
  const child = spawn(process.execPath, [join(suite, 'dist/index.js'), 'server', ...args, '-o', out]);
  let printed = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (printed += chunk));
  await new Promise((resolve) => child.once('close', resolve));
  return printed;
}

/** The scenarios of a set, as the suite has them. */
function scenariosOf(set) {
  if (set === 'tasks') {
    const { stdout } = spawnSync(process.execPath, [join(suite, 'dist/index.js'), 'list', '--server'], {
      encoding: 'utf8',
    });
    return [...stdout.matchAll(/^ {2}- (tasks-\S+) \[extension\]$/gm)].map((found) => found[1]);
  }
  const yaml = readFileSync(join(suite, 'requirements', `${set}.yaml`), 'utf8');
  const list = /^server:\n((?: {2}- \S+\n)+)/m.exec(yaml)[1];
  const scored = list.trim().split('\n').map((line) => line.replace('- ', '').trim());
  return [...scored, ...(UNSCORED[set] ?? [])];
}

/** What the suite found of each scenario, by its name. */
function found(out, scenarios) {
  const folders = readdirSync(out);
  return new Map(
    scenarios.map((name) => {
      // A folder is named by the scenario and the time.
      const own = folders.filter((folder) => new RegExp(`^server-${name}-\\d{4}-.*Z$`).test(folder));
      const checks = own.map((folder) => JSON.parse(readFileSync(join(out, folder, 'checks.json'), 'utf8')));
      return [name, checks.flat()];
    }),
  );
}

/** What is wrong with a set, one line each. */
function problems(set, scenarios, results) {
  const wrong = [];
  if (scenarios.length !== SETS[set]) {
    wrong.push(`the suite has ${scenarios.length} scenarios in this set, and not ${SETS[set]}`);
  }
  for (const [name, checks] of results) {
    const counted = checks.filter(({ status }) => status !== 'INFO');
    const untested = name === WITHOUT_TEST && checks.some(({ id, status }) => id === name && status === 'SKIPPED');
    if (untested) continue;
    if (counted.length === 0) wrong.push(`${name}: no check was made`);
    for (const { id, status, errorMessage } of counted.filter((check) => check.status !== 'SUCCESS')) {
      wrong.push(`${name}: ${id}: ${status}: ${errorMessage ?? 'no reason is given'}`);
    }
  }
  return wrong;
}

/** The closing lines of what the suite printed: those on the set as a whole, or on one scenario. */
const closing = (printed) => printed.slice(printed.search(/=== SUMMARY ===|\nTest Results:/)).trim();

async function runSet(set, server, out) {
  const scenarios = scenariosOf(set);
  const revision = set === 'tasks' ? undefined : set;
  if (revision && !options.killed) {
    console.log(closing(await run(out, '--url', server.url, '--requirements', revision)));
  } else {
    for (const name of scenarios) {
      // With a version, the suite takes a scenario of an extension for one that does not apply, and skips it.
      const version = revision ? ['--spec-version', revision] : [];
      const printed = await run(out, '--url', server.url, '--scenario', name, ...version);
      const line = /^Passed: .*$/m.exec(printed)?.[0] ?? 'said nothing';
      console.log(`${name}: ${line}${name === WITHOUT_TEST ? ' (the suite has no test of it yet)' : ''}`);
      if (options.killed) {
        await server.stop('SIGKILL');
        await server.start();
      }
    }
  }
  const results = found(out, scenarios);
  const checks = [...results.values()].flat();
  const passed = checks.filter(({ status }) => status === 'SUCCESS').length;
  const wrong = problems(set, scenarios, results);
  const how = options.killed ? ', with the server killed between them' : '';
  console.log(`== ${set}: ${scenarios.length} scenarios${how}, ${passed} checks passed, ${wrong.length} did not`);
  return wrong;
}

/** The processes that were started for this run: its folder is on their command line, or in their environment. */
function processesOf(work) {
  const ours = (pid) =>
    ['cmdline', 'environ'].some((name) => {
      try {
        return readFileSync(`/proc/${pid}/${name}`).includes(work);
      } catch {
        // It has ended, or is somebody else's.
        return false;
      }
    });
  return readdirSync('/proc').filter((name) => /^\d+$/.test(name) && ours(name));
}

/** Waits until no process of this run is left, those of cancelled jobs included. */
async function nothingLeft(work) {
  const until = Date.now() + STOP;
  let left = processesOf(work);
  while (left.length > 0 && Date.now() < until) {
    await sleep(100);
    left = processesOf(work);
  }
  for (const pid of left) process.kill(Number(pid), 'SIGKILL');
  return left.map((pid) => `process ${pid} was left behind`);
}

const work = mkdtempSync(join(tmpdir(), 'taskbridge-conformance-'));
cpSync(HERE, join(work, 'config'), { recursive: true });
const server = new Server(work);
const wrong = [];
try {
  await server.start();
  for (const set of sets) {
    console.log(`-- ${set}`);
    wrong.push(...(await runSet(set, server, join(work, `out-${set}`))));
  }
} catch (error) {
  wrong.push(error.stack);
}
const ended = await server.stop('SIGTERM');
if (ended !== 0) wrong.push(`the server did not stop as it should: ${ended}`);
wrong.push(...(await nothingLeft(work)));
if (wrong.length > 0) {
  for (const each of wrong) console.error(`FAILED: ${each}`);
  console.error(`what was found, and the server's log: ${work}`);
  process.exit(1);
}
rmSync(work, { recursive: true });
