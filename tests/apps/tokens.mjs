// Counts the tokens that a model sees for a job of ten minutes, with the view and without it. Without, the model waits
// by `task_wait`, each call for the server's time budget. The messages are real; the waits are shortened, since an answer
// of a wait has the same size whatever it waited for.

import { createRequire } from 'node:module';
import path from 'node:path';

import { check } from '../console/check.mjs';
import { until } from '../console/world.mjs';
import { Chat, PACKAGES, state } from './chat.mjs';
import { withWorld } from './course.mjs';

const require = createRequire(path.join(PACKAGES, 'package.json'));
const { encode } = require('gpt-tokenizer');

const JOB_SECONDS = 600;
// The default of `call_budget`.
const WAIT_SECONDS = 25;

// What a model sees of a call: its own request, and the content of the result.
const ofCall = (name, args) => encode(JSON.stringify({ name, arguments: args })).length;
const ofResult = (result) => encode(result.content.map((block) => block.text ?? JSON.stringify(block)).join('\n')).length
    + (result.structuredContent ? encode(JSON.stringify(result.structuredContent)).length : 0);
// And of the list of tools, in every conversation: what a host does not keep for the view.
const ofTools = (tools) => encode(JSON.stringify(tools.filter(({ _meta }) => _meta?.ui?.visibility?.includes('model') ?? true)
    .map(({ name, description, inputSchema }) => ({ name, description, inputSchema })))).length;

async function count(tools, world, hasView) {
    const chat = await Chat.open(tools, world, hasView ? {} : { capabilities: {} });
    const args = { revision: 'main', delay_ms: 3_600_000, steps: 5, text: 'Release 4711 is in all regions.' };
    let tokens = ofCall('deploy', args);
    let result;
    if (hasView) {
        const frame = await chat.call('deploy', args);
        result = chat.calls[0].settled;
        tokens += ofResult(result);
        await state(frame, 'running');
        await world.hasten();
        await state(frame, 'succeeded');
        const told = await chat.until('ui/update-model-context');
        tokens += encode(told.params.content[0].text).length;
    } else {
        // The answer after the budget of a call, as `task_wait` gives it at once with `seconds` 0.
        const started = await world.client().start('deploy', args);
        const wait = { task_id: started };
        const look = await chat.client.callTool({ name: 'task_wait', arguments: { ...wait, seconds: 0 } });
        check(look.structuredContent.status === 'working', JSON.stringify(look));
        const times = Math.ceil(JOB_SECONDS / WAIT_SECONDS) - 1;
        tokens += ofResult(look) + times * ofCall('task_wait', wait) + (times - 1) * ofResult(look);
        await until('it has ended', async () => {
            await world.hasten();
            result = await chat.client.callTool({ name: 'task_wait', arguments: { ...wait, seconds: 1 } });
            return !result.structuredContent;
        });
        tokens += ofResult(result);
    }
    const list = ofTools((await chat.client.listTools()).tools);
    return { tokens, list };
}

async function compare(tools) {
    await withWorld({}, async (world) => {
        const [without, withView] = [await count(tools, world, false), await count(tools, world, true)];
        console.log(`tokens for a job of ten minutes: ${without.tokens} without the view, ${withView.tokens} with it; list of tools: ${without.list} and ${withView.list}`);
        check(withView.tokens * 5 < without.tokens, 'the view saves most of them');
        check(withView.list === without.list, `a model sees the same tools: ${withView.list} ${without.list}`);
    });
}

export default [['tokens of a job of ten minutes', compare]];
