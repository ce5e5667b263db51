// Open pages follow what happens, also across a kill of the server.

import { check } from './check.mjs';
import { World } from './world.mjs';

const HOUR = 3_600_000;

// Marks the document, so that a reload would be seen.
const mark = (page) => page.evaluate(() => { window.marked = true; });
const isMarked = (page) => page.evaluate(() => window.marked === true);
const heading = (page, text) => page.locator('h1', { hasText: text }).waitFor();

async function follows(tools) {
    const world = await World.start();
    try {
        const client = world.client();
        const page = await tools.signedIn(world);
        await page.goto(`${world.origin}/console/tasks`);
        await mark(page);
        const task = await client.start('deploy', { revision: 'a', delay_ms: HOUR, steps: 5, text: 'all is well' });
        await page.locator(`#row-${task}`, { hasText: 'running' }).waitFor();
        await world.hasten();
        await page.locator(`#row-${task}`, { hasText: 'succeeded' }).waitFor();
        check(await isMarked(page), 'the list was updated in place');

        const asks = await client.start('approve');
        await client.until(asks, 'input_required');
        await page.goto(`${world.origin}/console/tasks/${asks}`);
        await mark(page);
        await page.getByLabel('Note').fill('half typed');
        await client.request('tasks/cancel', { taskId: asks });
        await heading(page, 'cancelled');
        check(await isMarked(page), 'the task was updated in place');
    } finally {
        await world.stop();
    }
}

// What is typed into a form stays while other parts of the page change.
async function keepsTyping(tools) {
    const world = await World.start();
    try {
        const client = world.client();
        const asks = await client.start('approve');
        await client.until(asks, 'input_required');
        const page = await tools.signedIn(world);
        await page.goto(`${world.origin}/console`);
        await page.getByLabel('Note').fill('half typed');
        const other = await client.start('deploy', { revision: 'b', delay_ms: HOUR });
        await page.locator(`#row-${other}`).waitFor();
        check(await page.getByLabel('Note').inputValue() === 'half typed', 'the text is still there');
        check(await page.evaluate(() => document.activeElement.name !== undefined), 'focus stays in the form');
    } finally {
        await world.stop();
    }
}

// A kill -9 in the middle of a watched task: the page says so, connects again, and is right.
async function survivesKill(tools) {
    const world = await World.start();
    try {
        const client = world.client();
        const page = await tools.signedIn(world);
        const task = await client.start('deploy', { revision: 'c', delay_ms: HOUR, text: 'after the kill' });
        await page.goto(`${world.origin}/console/tasks/${task}`);
        await heading(page, 'running');
        await mark(page);
        await world.kill();
        await page.locator('#connection:not([hidden])').waitFor();
        await world.serve();
        await world.hasten();
        await heading(page, 'succeeded');
        check(await isMarked(page), 'the page was not loaded again');
        await page.getByText('after the kill').waitFor();
        // To show the result is to read it, which the page tells by itself, too.
        await page.locator('.events li', { hasText: 'result read by the single user' }).waitFor();
        await page.locator('#connection[hidden]').waitFor({ state: 'attached' });
    } finally {
        await world.stop();
    }
}

// A sign-out everywhere ends the open pages of other browsers.
async function endsWithSession(tools) {
    const world = await World.start({ keys: true });
    try {
        const [one, two] = [await tools.signedIn(world, {}, 'ann'), await tools.signedIn(world, {}, 'ann')];
        await one.goto(`${world.origin}/console/tasks`);
        await two.locator('summary').click();
        await two.getByRole('button', { name: 'Sign out everywhere' }).click();
        await two.waitForURL('**/console/login*');
        await heading(one, 'Signed out');
    } finally {
        await world.stop();
    }
}

export default [
    ['list and task follow changes', follows],
    ['updates keep what is typed', keepsTyping],
    ['a page survives kill -9 of the server', survivesKill],
    ['sign-out everywhere ends open pages', endsWithSession],
];
