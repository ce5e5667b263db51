// Two principals see and change only what is theirs.

import { check } from './check.mjs';
import { furnish } from './pages.mjs';
import { World } from './world.mjs';

async function apart(tools) {
    const world = await World.start({ keys: true });
    try {
        const { client, asks, runs, shell, done } = await furnish(world, 'ann');
        const page = await tools.signedIn(world, {}, 'ben');
        for (const address of ['', '/tasks', '/tools/deploy']) {
            await page.goto(`${world.origin}/console${address}`);
            const text = await page.textContent('main');
            for (const id of [asks, runs, shell, done]) {
                check(!text.includes(id.slice(0, 8)), `${address} shows the task of another: ${text}`);
            }
        }
        for (const address of [runs, `${shell}?log=1`, `${shell}/artifacts/report.html`, `${done}/json`]) {
            const response = await page.request.get(`${world.origin}/console/tasks/${address}`);
            check(response.status() === 404, `${address}: ${response.status()}`);
        }
        // A stream begins before it is known what it shows: it says that there is nothing, and ends.
        const live = await (await page.request.get(`${world.origin}/console/tasks/${runs}?live=1`)).text();
        check(live.includes('Not found') && !live.includes(runs), `the stream shows the task of another: ${live}`);
        await page.goto(`${world.origin}/console/tools/deploy`);
        const token = await page.locator('input[name=form_token]').first().inputValue();
        for (const [address, form] of [
            [`${runs}/cancel`, {}],
            [`${asks}/answer`, { question: 'q', action: 'accept', 'argument-regions': '1' }],
        ]) {
            const response = await page.request.post(`${world.origin}/console/tasks/${address}`, {
                form: { form_token: token, ...form }, headers: { 'sec-fetch-site': 'same-origin' }, maxRedirects: 0,
            });
            check(response.status() === 404, `${address}: ${response.status()}`);
        }
        check((await client.get(runs)).status === 'working', 'nothing was cancelled');
        check((await client.get(asks)).status === 'input_required', 'nothing was answered');
    } finally {
        await world.stop();
    }
}

// An operator looks at everything, changes nothing, and each look is recorded.
async function operates(tools) {
    const world = await World.start({ keys: true });
    try {
        const { client, done, asks, runs } = await furnish(world, 'ann');
        const page = await tools.signedIn(world, {}, 'oscar');
        await page.goto(`${world.origin}/console/tasks?owner=ann`);
        check(await page.locator(`#row-${runs}`).count() === 1, 'the list shows the tasks of the owner');
        check(await page.locator('input[type=checkbox]').count() === 0, 'none can be chosen');
        await page.goto(`${world.origin}/console/tasks/${runs}`);
        check(await page.getByRole('button', { name: 'Cancel the task' }).count() === 0, 'it cannot be cancelled');
        check(await page.getByRole('link', { name: 'Call again' }).count() === 0, 'arguments stay with the owner');
        await page.goto(`${world.origin}/console/tasks/${asks}`);
        check(await page.getByRole('button', { name: 'Answer' }).count() === 0, 'it cannot be answered');
        await page.goto(`${world.origin}/console/tools/deploy`);
        const token = await page.locator('input[name=form_token]').first().inputValue();
        const response = await page.request.post(`${world.origin}/console/tasks/${runs}/cancel`, {
            form: { form_token: token }, headers: { 'sec-fetch-site': 'same-origin' }, maxRedirects: 0,
        });
        check(response.status() === 404, `cancel: ${response.status()}`);
        check((await client.get(runs)).status === 'working', 'nothing was cancelled');
        const audit = await page.goto(`${world.origin}/console/audit`);
        check(audit.status() === 200, `audit: ${audit.status()}`);
        const looks = await page.locator('tr', { hasText: 'task.read' }).allTextContents();
        for (const id of [runs, asks]) {
            check(looks.some((line) => line.includes('oscar') && line.includes(id.slice(0, 8))), `${id}: ${looks.join('\n')}`);
        }
        check(looks.some((line) => line.includes('owner: ann')), `the list is recorded: ${looks.join('\n')}`);
        await tools.sound(page, 'audit');
        await page.goto(`${world.origin}/console/backends`);
        await page.getByRole('link', { name: 'Check engine' }).click();
        await page.getByRole('heading', { name: 'Check-up of engine' }).waitFor();
        check((await page.textContent('ul.findings')).includes('it answers'), 'the findings are shown');
        await tools.sound(page, 'check-up');

        // Clients of an operator see no more, and others have none of these pages.
        const asClient = await world.client('oscar').get(done).catch((error) => error);
        check(asClient instanceof Error, 'a client of the operator sees the task');
        const ben = await tools.signedIn(world, {}, 'ben');
        check((await ben.goto(`${world.origin}/console/audit`)).status() === 404, 'the audit log is for operators');
        await ben.goto(`${world.origin}/console/tasks?owner=ann`);
        check(await ben.locator('tbody tr').count() === 0, 'the list is for operators');
        await ben.goto(`${world.origin}/console/backends?check=engine`);
        check(await ben.locator('ul.findings').count() === 0, 'the check-up is for operators');
    } finally {
        await world.stop();
    }
}

export default [
    ['an operator looks and changes nothing', operates],
    ['another owner sees and changes nothing', apart],
];
