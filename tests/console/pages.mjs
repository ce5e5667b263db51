// Every page, in light and dark, wide and narrow, with axe; and every form without script.

import { check } from './check.mjs';
import { LINK, World } from './world.mjs';

// Creates tasks in the states that pages show. Returns the addresses of all pages.
export async function furnish(world, name) {
    const client = world.client(name);
    const done = await client.start('deploy', { revision: 'v2.4.0', delay_ms: 0, text: 'rolled out to 3 regions', link: LINK });
    const failed = await client.start('deploy', { revision: 'v2.4.1', delay_ms: 0, outcome: 'fail', text: 'error: smoke test failed in eu-west-1' });
    const asks = await client.start('approve');
    const runs = await client.start('deploy', { revision: 'main', delay_ms: 3_600_000, steps: 40, link: LINK });
    const shell = await client.start('shell');
    await client.until(done, 'completed');
    await client.until(failed, 'failed');
    await client.until(shell, 'failed');
    await client.until(asks, 'input_required');
    const pages = [
        ['inbox', ''], ['tasks', '/tasks'], ['filtered', '/tasks?state=failed&tool=deploy'], ['none', '/tasks?q=nothing-has-this'],
        ['task-done', `/tasks/${done}`], ['task-failed', `/tasks/${failed}`], ['task-asks', `/tasks/${asks}`],
        ['task-runs', `/tasks/${runs}`], ['task-log', `/tasks/${shell}?log=1`],
        ['tools', '/tools'], ['tool', '/tools/deploy'], ['backends', '/backends'], ['checkup', '/backends?check=engine'],
        ['audit', '/audit'],
    ];
    return { client, done, failed, asks, runs, shell, pages };
}

async function everyPage(tools, colorScheme, width) {
    const world = await World.start();
    try {
        const { pages } = await furnish(world);
        const page = await tools.signedIn(world, { colorScheme, viewport: { width, height: 800 } });
        for (const [name, address] of pages) {
            const where = `${name}, ${colorScheme}, ${width} px`;
            const response = await page.goto(`${world.origin}/console${address}`);
            check(response.status() === 200, `${where}: ${response.status()}`);
            check(await page.locator('h1').count() === 1, `${where}: one h1`);
            const [content, view] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
            check(content <= view, `${where}: it scrolls sideways: ${content} of ${view} px`);
            const bytes = (await response.body()).length;
            check(bytes < 200_000, `${where}: ${bytes} bytes`);
            await tools.sound(page, where);
        }
        check(page.problems.length === 0, `the browser complains: ${page.problems.join('\n')}`);
    } finally {
        await world.stop();
    }
}

// The sign-in, and the page of an address that does not exist.
async function outside(tools) {
    const world = await World.start({ keys: true });
    try {
        for (const colorScheme of ['light', 'dark']) {
            const page = await tools.page({ colorScheme, viewport: { width: 360, height: 700 } });
            await page.goto(`${world.origin}/console/tasks`);
            check(page.url().includes('/console/login?next='), page.url());
            await tools.sound(page, `sign-in, ${colorScheme}`);
            await page.getByLabel('API key').fill('wrong');
            await page.getByRole('button', { name: /^Sign in/ }).click();
            await page.getByRole('alert').waitFor();
            await tools.sound(page, `refused sign-in, ${colorScheme}`);
            await page.getByLabel('API key').fill(world.key('ann'));
            await page.getByRole('button', { name: /^Sign in/ }).click();
            await page.waitForURL('**/console/tasks');
            const response = await page.goto(`${world.origin}/console/nowhere`);
            check(response.status() === 404, `${response.status()}`);
            await tools.sound(page, `not found, ${colorScheme}`);
        }
    } finally {
        await world.stop();
    }
}

// A tool is started, its question answered, and a task cancelled, without a line of script.
async function withoutScript(tools) {
    const world = await World.start();
    try {
        const page = await tools.signedIn(world, { javaScriptEnabled: false });
        const client = world.client();
        await page.goto(`${world.origin}/console/tools`);
        await page.getByRole('link', { name: 'approve' }).click();
        await page.getByRole('button', { name: 'Start a task' }).click();
        await page.waitForURL('**/console/tasks/*');
        const asks = page.url().split('/').at(-1);
        await client.until(asks, 'input_required');
        await page.goto(`${world.origin}/console`);
        await page.getByLabel('Regions').fill('3');
        await page.getByRole('button', { name: 'Answer' }).click();
        await client.until(asks, 'completed');
        await page.reload();
        check((await page.textContent('main')).includes('succeeded'), 'the end is shown');

        await page.goto(`${world.origin}/console/tools/deploy`);
        await page.getByLabel('revision').fill('main');
        await page.getByLabel('delay_ms').fill('3600000');
        await page.getByRole('button', { name: 'Start a task' }).click();
        await page.waitForURL('**/console/tasks/*');
        const runs = page.url().split('/').at(-1);
        await page.getByRole('button', { name: 'Cancel the task' }).click();
        await client.until(runs, 'cancelled');
        await page.reload();
        check((await page.textContent('h1')).includes('cancelled'), 'the cancellation is shown');

        await page.locator('summary').click();
        await page.getByRole('button', { name: 'Sign out', exact: true }).click();
        await page.waitForURL('**/console/login*');
        await page.goto(`${world.origin}/console/tasks/${runs}`);
        check(page.url().includes('/login'), 'signed out');
    } finally {
        await world.stop();
    }
}

// "Call again" opens the form with the kept arguments, and never with a sensitive one.
async function callAgain(tools) {
    const world = await World.start({ keys: true });
    try {
        const client = world.client('ann');
        const text = '<b>"v2.4.0"</b>';
        const task = await client.start('deploy', { revision: text, delay_ms: 0, token: 'hush-hush' });
        const other = await client.start('shell');
        const page = await tools.signedIn(world, { javaScriptEnabled: false }, 'ann');
        await page.goto(`${world.origin}/console/tasks/${task}`);
        await page.getByRole('link', { name: 'Call again' }).click();
        check(await page.getByLabel('revision').inputValue() === text, 'the argument is kept');
        check(await page.getByLabel('token').inputValue() === '', 'the sensitive argument is not kept');
        check(!(await page.content()).includes('hush'), 'no sensitive argument is on the page');
        await page.getByRole('button', { name: 'Start a task' }).click();
        await page.waitForURL('**/console/tasks/*');
        check(!page.url().endsWith(task), 'it is a new task');
        // A tool that keeps nothing only links to its form, and a task of another person gives no arguments.
        await page.goto(`${world.origin}/console/tasks/${other}`);
        check(await page.getByRole('link', { name: 'Call again' }).count() === 0, 'nothing is kept');
        const ben = await tools.signedIn(world, {}, 'ben');
        const response = await ben.goto(`${world.origin}/console/tools/deploy?again=${task}`);
        check(response.status() === 404, `${response.status()}`);
    } finally {
        await world.stop();
    }
}

// Everything can be reached and used by the keyboard alone, and focus is visible.
async function byKeyboard(tools) {
    const world = await World.start();
    try {
        const { client, asks } = await furnish(world);
        const page = await tools.signedIn(world);
        await page.goto(`${world.origin}/console/tasks/${asks}`);
        const focused = () => page.evaluate(() => {
            const { outlineStyle, boxShadow } = getComputedStyle(document.activeElement);
            return { text: document.activeElement.textContent.trim(), visible: outlineStyle !== 'none' || boxShadow !== 'none' };
        });
        await page.keyboard.press('Tab');
        check((await focused()).text === 'Skip to the content', 'the first stop skips the navigation');
        await page.getByLabel('Regions').focus();
        await page.keyboard.type('2');
        for (let stops = 0; (await focused()).text !== 'Answer'; stops += 1) {
            check(stops < 10, 'the button is not reached by Tab');
            await page.keyboard.press('Tab');
            check((await focused()).visible, `no visible focus on ${(await focused()).text}`);
        }
        await page.keyboard.press('Enter');
        await client.until(asks, 'completed');
    } finally {
        await world.stop();
    }
}

const views = ['light', 'dark'].flatMap((scheme) => [1280, 360].map((width) => [scheme, width]));
export default [
    ...views.map(([scheme, width]) => [`every page in ${scheme} at ${width} px`, (tools) => everyPage(tools, scheme, width)]),
    ['sign-in and missing pages', outside],
    ['forms work without script', withoutScript],
    ['call again keeps arguments', callAgain],
    ['a question is answered by keyboard', byKeyboard],
];
