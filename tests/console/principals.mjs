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

export default [['another owner sees and changes nothing', apart]];
