// Many tasks and many open pages: how fast the list is, how large pages are, and how much memory open pages need.

import { readFile } from 'node:fs/promises';

import { check } from './check.mjs';
import { until, World } from './world.mjs';

const TASKS = Number(process.env.CONSOLE_TASKS ?? 10_000);
const OPEN_PAGES = 500;
// The limits are those of a release build on a machine with nothing else to do. Other machines only report.
const IS_STRICT = process.env.CONSOLE_STRICT === '1';

// Reports a figure, and holds it against its limit: a time only if the machine can be relied on.
function figure(what, value, limit, unit) {
    console.log(`   ${what}: ${value} ${unit} (limit ${limit})`);
    check((unit === 'ms' && !IS_STRICT) || value <= limit, `${what}: ${value} ${unit}, more than ${limit}`);
}

async function create(world, count) {
    const clients = Array.from({ length: 8 }, () => world.client());
    let left = count;
    await Promise.all(clients.map(async (client) => {
        while (left-- > 0) await client.start('deploy', { revision: `v${left}`, delay_ms: 0 });
    }));
}

// Milliseconds to the first byte of the slowest but two of twenty requests, and the largest page in bytes.
async function slowest(address, cookie) {
    const times = [];
    let bytes = 0;
    for (let n = 0; n < 20; n += 1) {
        const from = performance.now();
        const response = await fetch(address, { headers: { cookie }, redirect: 'manual' });
        const reader = response.body.getReader();
        const first = await reader.read();
        times.push(performance.now() - from);
        check(response.status === 200, `${address}: ${response.status}`);
        let size = first.value?.length ?? 0;
        for (let part = await reader.read(); !part.done; part = await reader.read()) size += part.value.length;
        bytes = Math.max(bytes, size);
    }
    times.sort((one, other) => one - other);
    return [Math.round(times.at(-3)), Math.round(times[10]), bytes];
}

async function residentKilobytes(child) {
    const status = await readFile(`/proc/${child.pid}/status`, 'utf8');
    return Number(/VmRSS:\s+(\d+)/.exec(status)[1]);
}

async function underLoad(tools) {
    const world = await World.start({ extra: `[limits]\nmax_streams_per_owner = ${OPEN_PAGES + 50}\n` });
    const stop = new AbortController();
    try {
        const page = await tools.signedIn(world, { javaScriptEnabled: false });
        const cookie = (await page.context().cookies()).map(({ name, value }) => `${name}=${value}`).join('; ');
        const from = Date.now();
        await create(world, TASKS);
        console.log(`   ${TASKS} tasks created in ${Math.round((Date.now() - from) / 1000)} s`);
        const client = world.client();
        const last = await client.start('deploy', { revision: 'last', delay_ms: 0 });
        await client.until(last, 'completed');
        for (const address of ['', '/tasks', '/tasks?state=failed', '/tasks?q=v7', `/tasks/${last}`]) {
            const [time, median, bytes] = await slowest(`${world.origin}/console${address}`, cookie);
            const limit = address === '/tasks' ? 50 : 1_000;
            figure(`/console${address.slice(0, 20)}: first byte (median ${median} ms)`, time, limit, 'ms');
            check(bytes < 200_000, `/console${address}: ${bytes} bytes`);
            console.log(`   /console${address.slice(0, 20)}: ${bytes} bytes`);
        }
        const before = await residentKilobytes(world.server);
        let shown = 0;
        const open = async () => {
            const response = await fetch(`${world.origin}/console/tasks?live=1`, { headers: { cookie }, signal: stop.signal });
            check(response.status === 200, `a page cannot be opened: ${response.status}`);
            const reader = response.body.getReader();
            const decoder = new TextDecoder();
            let text = '';
            while (!text.includes('id="page"')) text += decoder.decode((await reader.read()).value, { stream: true });
            shown += 1;
            return reader;
        };
        await Promise.all(Array.from({ length: OPEN_PAGES }, open));
        await until('all pages are shown', () => shown === OPEN_PAGES);
        const after = await residentKilobytes(world.server);
        figure(`${OPEN_PAGES} open pages`, Math.round((after - before) / 1024), 50, 'MiB');
    } finally {
        stop.abort();
        await world.stop();
    }
}

export default [['many tasks and open pages', underLoad]];
