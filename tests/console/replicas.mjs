// Two servers over one PostgreSQL, behind one address: pages show what happened at the other, and outlive a killed one.

import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, mkdirSync, chmodSync, readdirSync, existsSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';

import { check } from './check.mjs';
import { until, World } from './world.mjs';

const listen = (server) => new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server.address().port)));

// Below the ports of outgoing connections, as in tests/ports.py.
const freePort = async () => {
    for (;;) {
        const probe = net.createServer();
        const port = 20_000 + Math.floor(Math.random() * 12_000);
        const isFree = new Promise((resolve) => probe.on('error', () => resolve(false)).on('listening', () => resolve(true)));
        probe.listen(port, '127.0.0.1');
        if (!(await isFree)) continue;
        await new Promise((resolve) => probe.close(resolve));
        return port;
    }
};

// PostgreSQL in a folder of its own, which refuses to run as root.
class Postgres {
    static async start() {
        const postgres = new Postgres();
        const versions = readdirSync('/usr/lib/postgresql').map((version) => `/usr/lib/postgresql/${version}/bin`);
        const bin = versions.filter((folder) => existsSync(`${folder}/initdb`)).at(-1);
        postgres.folder = mkdtempSync(path.join(tmpdir(), 'taskbridge-postgres-'));
        const data = path.join(postgres.folder, 'data');
        mkdirSync(data);
        chmodSync(postgres.folder, 0o755);
        const isRoot = process.getuid() === 0;
        const as = isRoot ? ['setpriv', '--reuid=nobody', '--regid=nogroup', '--clear-groups'] : ['env'];
        if (isRoot) execFileSync('chown', ['nobody', data]);
        const init = [...as, `${bin}/initdb`, '-D', data, '-U', 'tester', '--encoding=UTF8', '--locale=C', '--no-sync', '-A', 'trust'];
        execFileSync(init[0], init.slice(1), { cwd: '/', stdio: 'ignore' });
        const port = await freePort();
        const serve = [...as, `${bin}/postgres`, '-D', data, '-k', data, '-h', '127.0.0.1', '-p', String(port), '-c', 'fsync=off'];
        postgres.process = spawn(serve[0], serve.slice(1), { cwd: '/', stdio: 'ignore' });
        process.on('exit', () => postgres.process.kill('SIGKILL'));
        const isReady = () => {
            try {
                execFileSync(`${bin}/pg_isready`, ['-q', '-h', '127.0.0.1', '-p', String(port)]);
                return true;
            } catch {
                return false;
            }
        };
        await until('PostgreSQL answers', isReady);
        postgres.store = `kind = "postgres"\nurl = "postgres://tester@127.0.0.1:${port}/postgres"`;
        return postgres;
    }

    async stop() {
        const ended = new Promise((resolve) => this.process.on('exit', resolve));
        this.process.kill('SIGINT');
        await ended;
        rmSync(this.folder, { recursive: true, force: true });
    }
}

// One address for two servers: new connections go to the one that `port` names.
class Balancer {
    static async start() {
        const balancer = new Balancer();
        balancer.server = net.createServer((from) => {
            const to = net.connect(balancer.port, '127.0.0.1');
            from.on('error', () => to.destroy()).on('close', () => to.destroy());
            to.on('error', () => from.destroy()).on('close', () => from.destroy());
            from.pipe(to).pipe(from);
        });
        balancer.origin = `http://127.0.0.1:${await listen(balancer.server)}`;
        return balancer;
    }

    stop() {
        this.server.close();
    }
}

async function twoReplicas(tools) {
    const postgres = await Postgres.start();
    const balancer = await Balancer.start();
    const worlds = [];
    try {
        const console = `url = "${balancer.origin}"`;
        const one = await World.start({ keys: true, store: postgres.store, console });
        worlds.push(one);
        const two = await World.start({ keys: true, store: postgres.store, console, engineAddress: one.engineAddress });
        worlds.push(two);
        balancer.port = one.port;
        const page = await tools.signedIn(balancer, { }, 'ann', one.key('ann'));
        const client = one.client('ann');
        const asks = await client.start('approve');
        await client.until(asks, 'input_required');
        await page.goto(`${balancer.origin}/console/tasks/${asks}`);
        await page.getByLabel('Regions').waitFor();

        // The session counts at the other server, whose answer reaches the page that is open at this one.
        balancer.port = two.port;
        const other = await page.context().newPage();
        await other.goto(`${balancer.origin}/console/tasks/${asks}`);
        await other.getByLabel('Regions').fill('4');
        await other.getByRole('button', { name: 'Answer' }).click();
        await page.locator('h1', { hasText: 'succeeded' }).waitFor();

        // A server is killed while a page of it shows a running task: the other takes over the task, and the page.
        balancer.port = one.port;
        const runs = await client.start('deploy', { revision: 'r', delay_ms: 3_600_000, text: 'by the other' });
        await page.goto(`${balancer.origin}/console/tasks/${runs}`);
        await page.locator('h1', { hasText: 'running' }).waitFor();
        await page.evaluate(() => { window.marked = true; });
        await one.kill();
        balancer.port = two.port;
        await one.hasten();
        await page.locator('h1', { hasText: 'succeeded' }).waitFor();
        await page.getByText('by the other').waitFor();
        check(await page.evaluate(() => window.marked === true), 'the page was not loaded again');

        // A sign-out everywhere at one server ends the session at the other.
        await one.serve();
        await other.locator('summary').click();
        await other.getByRole('button', { name: 'Sign out everywhere' }).click();
        await other.waitForURL('**/console/login*');
        balancer.port = one.port;
        await page.goto(`${balancer.origin}/console/tasks`);
        check(page.url().includes('/console/login'), 'the session has ended at both servers');
    } finally {
        for (const world of worlds) await world.stop();
        balancer.stop();
        await postgres.stop();
    }
}

export default [['two servers behind one address', twoReplicas]];
