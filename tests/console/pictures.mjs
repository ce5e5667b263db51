// Pictures of the real pages, for the documents.

import path from 'node:path';

import { furnish } from './pages.mjs';
import { World } from './world.mjs';

async function take(tools) {
    const world = await World.start();
    try {
        const { client, asks, runs, failed, done, shell } = await furnish(world);
        // A task whose question a person answers.
        const answered = await client.start('approve');
        await client.until(answered, 'input_required');
        const person = await tools.signedIn(world);
        await person.goto(`${world.origin}/console/tasks/${answered}`);
        await person.getByLabel('Regions').fill('3');
        await person.getByRole('button', { name: 'Answer' }).click();
        await client.until(answered, 'completed');
        for (const [name, address, options] of [
            ['inbox', '', {}],
            ['inbox-dark', '', { colorScheme: 'dark' }],
            ['tasks', '/tasks', {}],
            ['task-runs', `/tasks/${runs}`, {}],
            ['task-asks', `/tasks/${asks}`, { colorScheme: 'dark' }],
            ['task-failed', `/tasks/${failed}`, {}],
            ['task-answered', `/tasks/${answered}`, {}],
            ['task-done', `/tasks/${done}`, {}],
            ['task-log', `/tasks/${shell}?log=1`, { colorScheme: 'dark' }],
            ['tool', '/tools/deploy', {}],
            ['tools', '/tools', {}],
            ['backends', '/backends', {}],
            ['inbox-narrow', '', { viewport: { width: 360, height: 800 } }],
            ['task-narrow', `/tasks/${runs}`, { viewport: { width: 360, height: 800 }, colorScheme: 'dark' }],
        ]) {
            const page = await tools.signedIn(world, { viewport: { width: 1100, height: 760 }, ...options });
            await page.goto(`${world.origin}/console${address}`);
            await page.screenshot({ path: path.join(tools.folder, `console-${name}.png`), animations: 'disabled' });
            await page.context().close();
        }
    } finally {
        await world.stop();
    }
}

export default [['pages for the documents', take]];
