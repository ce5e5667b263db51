// Pictures of the view in a chat, for the documents.

import path from 'node:path';

import { Chat } from './chat.mjs';
import { withWorld } from './course.mjs';
import { COLOURS, views } from './looks.mjs';

async function take(tools) {
    await withWorld({}, async (world) => {
        // The usual duration is known from five jobs on.
        const client = world.client();
        for (let n = 0; n < 6; n += 1) {
            const task = await client.start('deploy', { revision: 'a', delay_ms: 6_000 + 500 * n, steps: 5 });
            if (n === 5) await client.until(task, 'completed');
        }
        for (const [theme, width, variables] of [['light', 760, {}], ['dark', 760, COLOURS], ['dark', 360, {}]]) {
            const chat = await Chat.open(tools, world, {
                look: { theme, styles: { variables } }, browser: { colorScheme: theme, viewport: { width, height: 4_000 }, deviceScaleFactor: 1.5 },
            });
            await views(chat, world);
            const runs = await chat.call('deploy', { revision: 'main', delay_ms: 3_600_000, link: 'https://engine.example/runs/4711' });
            await runs.locator('#time', { hasText: 'usually' }).waitFor();
            await runs.locator('#drawing svg').waitFor({ state: 'attached' });
            const names = ['asks', 'log', 'failed', 'person', 'done', 'runs'];
            for (const [n, name] of names.entries()) {
                const card = chat.page.locator(`[data-call="${n}"]`);
                await card.scrollIntoViewIfNeeded();
                const file = `apps-${name}-${theme}${width < 500 ? '-narrow' : ''}.png`;
                await card.screenshot({ path: path.join(tools.folder, file), animations: 'disabled' });
            }
            await chat.close();
            tools.chats.delete(chat);
        }
    });
}

export default [['the view in a chat, for the documents', take]];
