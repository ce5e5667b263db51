// What a person does: cancels several tasks, pages through many, marks failures as seen, watches a log, saves a file.

import { check } from './check.mjs';
import { furnish } from './pages.mjs';
import { World } from './world.mjs';

async function bulkCancel(tools) {
    const world = await World.start();
    try {
        const client = world.client();
        const run = (revision) => client.start('deploy', { revision, delay_ms: 3_600_000 });
        const [one, two, three] = [await run('one'), await run('two'), await run('three')];
        for (const javaScriptEnabled of [false, true]) {
            const page = await tools.signedIn(world, { javaScriptEnabled });
            await page.goto(`${world.origin}/console/tasks?state=running`);
            // Without a choice, nothing is cancelled.
            await page.getByRole('button', { name: 'Cancel the chosen tasks' }).click();
            await page.waitForURL('**/console/tasks?*');
            for (const task of javaScriptEnabled ? [three] : [one, two]) await page.locator(`#row-${task} input`).check();
            await page.getByRole('button', { name: 'Cancel the chosen tasks' }).click();
            if (javaScriptEnabled) break;
            await client.until(one, 'cancelled');
            await client.until(two, 'cancelled');
            check((await client.get(three)).status === 'working', 'a task that was not chosen is cancelled');
        }
        await client.until(three, 'cancelled');
    } finally {
        await world.stop();
    }
}

// A list has pages, and each task is on one of them.
async function listHasPages(tools) {
    const world = await World.start();
    try {
        const client = world.client();
        const made = new Set();
        for (let n = 0; n < 120; n += 1) made.add(await client.start('deploy', { revision: `v${n}`, delay_ms: 0 }));
        const page = await tools.signedIn(world, { javaScriptEnabled: false });
        await page.goto(`${world.origin}/console/tasks?tool=deploy`);
        const seen = new Set();
        for (let pages = 1; ; pages += 1) {
            check(pages <= 3, 'there are too many pages');
            const ids = await page.locator('tbody tr').evaluateAll((rows) => rows.map(({ id }) => id.replace('row-', '')));
            for (const id of ids) {
                check(!seen.has(id), `${id} is on two pages`);
                seen.add(id);
            }
            const next = page.getByRole('link', { name: 'Next page' });
            if (!await next.count()) break;
            await next.click();
            check(page.url().includes('tool=deploy'), 'the filter stays');
        }
        check([...made].every((id) => seen.has(id)), `${made.size - seen.size} tasks are on no page`);
    } finally {
        await world.stop();
    }
}

async function failuresAreSeen(tools) {
    const world = await World.start();
    try {
        const { failed, client } = await furnish(world);
        const page = await tools.signedIn(world);
        await page.goto(`${world.origin}/console`);
        await page.locator(`section[aria-labelledby=failed] #row-${failed}`).waitFor();
        await page.getByRole('button', { name: 'I have seen these' }).click();
        await page.getByText('No failures.').waitFor();
        const later = await client.start('deploy', { revision: 'v3', delay_ms: 0, outcome: 'fail' });
        await page.locator(`section[aria-labelledby=failed] #row-${later}`).waitFor();
        check(await page.locator(`section[aria-labelledby=failed] #row-${failed}`).count() === 0, 'a seen failure is new again');
    } finally {
        await world.stop();
    }
}

// The log of a running job grows on the open page; its first failure is one click away; a file is saved, not shown.
async function logIsFollowed(tools) {
    const script = 'echo "step one"; while [ ! -e go ]; do sleep 0.05; done; echo "error: disk full"; echo "step two"; '
        + 'echo "a,b" >"$TASKBRIDGE_ARTIFACTS/report.csv"; while [ ! -e end ]; do sleep 0.05; done';
    const tool = `[tools.long]\nbackend = "here"\n[tools.long.target]\ncommand = ["sh", "-c", '''${script}''']\n`;
    const world = await World.start({ extra: tool });
    try {
        const client = world.client();
        const task = await client.start('long');
        const page = await tools.signedIn(world);
        await page.goto(`${world.origin}/console/tasks/${task}`);
        await page.getByRole('link', { name: 'Show the log' }).click();
        await page.locator('pre', { hasText: 'step one' }).waitFor();
        check(!(await page.textContent('pre')).includes('step two'), 'the job waits');
        await world.touch('go');
        await page.locator('pre', { hasText: 'step two' }).waitFor();
        await page.getByRole('link', { name: 'First failure' }).click();
        check((await page.locator('#first-failure:target').textContent()) === 'error: disk full', 'the failure is marked');
        await page.getByLabel('Lines with').fill('step');
        await page.getByRole('button', { name: 'Search' }).click();
        await page.locator('pre', { hasText: 'step one' }).waitFor();
        check(!(await page.textContent('pre')).includes('disk full'), 'other lines are left out');
        await world.touch('end');
        await page.locator('h1', { hasText: 'succeeded' }).waitFor();
        const [download] = await Promise.all([
            page.waitForEvent('download'), page.getByRole('link', { name: 'report.csv' }).click(),
        ]);
        check(download.suggestedFilename() === 'report.csv', download.suggestedFilename());
    } finally {
        await world.stop();
    }
}

export default [
    ['chosen tasks are cancelled together', bulkCancel],
    ['a list has pages', listHasPages],
    ['failures are seen once', failuresAreSeen],
    ['a log is followed', logIsFollowed],
];
