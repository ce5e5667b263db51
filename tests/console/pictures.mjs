// Pictures of the real pages, for the documents.

import path from 'node:path';

import { furnish } from './pages.mjs';
import { World } from './world.mjs';

async function take(tools) {
    const world = await World.start();
    try {
        const { asks, runs, failed, done, shell } = await furnish(world);
        for (const [name, address, options] of [
            ['inbox', '', {}],
            ['inbox-dark', '', { colorScheme: 'dark' }],
            ['tasks', '/tasks', {}],
            ['task-runs', `/tasks/${runs}`, {}],
            ['task-asks', `/tasks/${asks}`, { colorScheme: 'dark' }],
            ['task-failed', `/tasks/${failed}`, {}],
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
