// The course of a task in a real host: it starts, updates, asks, is answered and cancelled, in both generations and
// with what goes wrong between.

import { check } from '../console/check.mjs';
import { until, World } from '../console/world.mjs';
import { Chat, state } from './chat.mjs';

// Tools whose questions a model may answer, so that the view's answer counts, and one with four eyes.
export const TOOLS = `
[tools.ask]
title = "Release to a region"
description = "Asks where to."
backend = "engine"
answer_by_model = true
parameters.delay_ms = { type = "integer", default = 0 }
[tools.ask.target]
text = "rolled out"
[tools.ask.target.question]
message = "Where shall it go?"
at_once = true
schema = { type = "object", required = ["region", "share"], properties = { region = { type = "string", title = "Region", enum = ["north", "south"] }, share = { type = "integer", title = "Share in percent", minimum = 1, maximum = 100, default = 10 }, dry = { type = "boolean", title = "Only a trial" }, note = { type = "string", title = "Note", description = "For the log." } } }

[tools.brief]
description = "Is kept for a moment after its end."
backend = "engine"
target = {}
keep_result = "1s"
parameters.delay_ms = { type = "integer", default = 3600000 }

# Else a task would be kept for an hour from its start on.
[lifetime]
default_ttl = "5s"
min_ttl = "1s"

[tools.prints]
description = "Prints lines until it is stopped."
backend = "here"
[tools.prints.target]
command = ["sh", "-c", 'n=0; while [ $n -lt 600 ]; do n=$((n+1)); echo "line $n"; echo "progress $n/600 step $n" >>"$TASKBRIDGE_EVENTS"; sleep 0.5; done']
`;

const KEYS_TOOLS = `
[tools.guarded]
title = "Deploy with four eyes"
description = "Somebody else must agree."
backend = "engine"
answer_by_model = true
access = { see = { everybody = true }, answer = { everybody = true, not_caller = true } }
[tools.guarded.target.question]
message = "Deploy now?"
at_once = true
schema = { type = "object", properties = { ok = { type = "boolean", title = "Go ahead" } } }
`;

export async function withWorld(options, test) {
    const world = await World.start({ ...options, extra: TOOLS + (options.extra ?? '') });
    try {
        await test(world);
    } finally {
        await world.stop();
    }
}

const HOUR = 3_600_000;

async function wholeCourse(tools, world, modern) {
    const chat = await Chat.open(tools, world, { modern });
    const frame = await chat.call('ask');
    await state(frame, 'needs an answer');
    check((await frame.locator('#title').textContent()) === 'Release to a region', 'the title of the tool');
    // Checked by the browser: a required choice is missing.
    await frame.getByRole('button', { name: 'Answer' }).click();
    await frame.getByLabel('Region').selectOption('south');
    await frame.getByLabel('Share in percent').fill('25');
    await frame.getByLabel('Note (optional)').fill('half of <b>it</b>');
    await frame.getByRole('button', { name: 'Answer' }).click();
    await state(frame, 'succeeded');
    const sent = chat.heard.filter(({ params }) => params?.name === 'task_answer');
    check(sent.length === 1, `one answer is sent: ${JSON.stringify(sent)}`);
    const { content } = sent[0].params.arguments;
    const answered = JSON.stringify(Object.entries(content).sort());
    check(answered === '[["dry",false],["note","half of <b>it</b>"],["region","south"],["share",25]]', answered);
    const { params } = await chat.until('ui/update-model-context');
    check(/ended: succeeded.*rolled out/s.test(params.content[0].text), params.content[0].text);
    check(!chat.heard.some(({ kind }) => kind === 'ui/message'), 'no message without a click');
    await frame.getByRole('button', { name: 'Tell the assistant' }).click();
    const message = (await chat.until('ui/message')).params;
    check(message.role === 'user' && message.content[0].text === params.content[0].text, JSON.stringify(message));
    await frame.locator('#drawing svg circle').first().waitFor();

    // A view of a task that has ended reads the end of the log once, and does not poll any more.
    const runs = await chat.call('deploy', { revision: 'a', delay_ms: HOUR, steps: 5, link: 'https://engine.example/runs/4711' });
    await state(runs, 'running');
    await until('the second view looks', () => chat.looks(1) >= 1);
    const looks = chat.looks(0);
    await until('the second view looks three times more', () => chat.looks(1) >= 4);
    check(chat.looks(0) === looks, `the view of the ended task looks again: ${JSON.stringify(chat.heard.filter(({ n }) => n === 0).slice(-4))}`);
    await runs.getByRole('button', { name: 'Open in the engine (engine.example)' }).click();
    check((await chat.until('ui/open-link')).params.url === 'https://engine.example/runs/4711', 'the link');

    await runs.getByRole('button', { name: 'Cancel the task' }).click();
    await runs.getByRole('button', { name: 'Keep it running' }).click();
    await runs.getByRole('button', { name: 'Cancel the task' }).click();
    await runs.getByRole('button', { name: 'Yes, cancel it' }).click();
    await state(runs, 'cancelled');
    check(chat.heard.filter(({ params: p }) => p?.name === 'task_cancel').length === 1, 'one cancellation');
    check(chat.errors.length === 0 && chat.page.problems.length === 0, [...chat.errors, ...chat.page.problems].join('\n'));
}

async function shortCall(tools, world, modern) {
    const chat = await Chat.open(tools, world, { modern });
    const frame = await chat.call('deploy', { revision: 'a', delay_ms: 0, text: 'all is well' });
    await state(frame, 'succeeded');
    await frame.locator('#outcome', { hasText: 'all is well' }).waitFor();
    // On a slow machine the call returns a handle, and the view tells the end.
    const isHandle = chat.calls[0].settled.structuredContent?.task_id !== undefined;
    if (isHandle) await chat.until('ui/update-model-context');
    check(chat.heard.some(({ kind }) => kind === 'ui/update-model-context') === isHandle, 'the model has the result already');
    const refused = await chat.call('deploy', { revision: 'a', delay_ms: -1 });
    await refused.locator('#message', { hasText: 'Nothing was started.' }).waitFor();
}

async function survivesKill(tools, world) {
    const chat = await Chat.open(tools, world);
    const frame = await chat.call('deploy', { revision: 'a', delay_ms: HOUR, text: 'survived' });
    await state(frame, 'running');
    await world.kill();
    await frame.locator('#note', { hasText: 'cannot be read now' }).waitFor();
    await world.serve();
    await world.hasten();
    await state(frame, 'succeeded');
    await frame.locator('#outcome', { hasText: 'survived' }).waitFor();
    check((await frame.locator('#note').textContent()) === '', 'the note is gone');
    check((await frame.locator('#drawing').textContent()).includes('took over'), 'the drawing shows the new process');
}

async function reopened(tools, world) {
    const first = await Chat.open(tools, world);
    const frame = await first.call('deploy', { revision: 'a', delay_ms: HOUR, text: 'all is well' });
    await state(frame, 'running');
    const kept = JSON.parse(JSON.stringify(first.calls[0].settled));
    check(kept.structuredContent.status === 'working', 'the conversation keeps the handle');
    await world.hasten();
    await state(frame, 'succeeded');
    await first.close();
    tools.chats.delete(first);

    const second = await Chat.open(tools, world, { modern: true });
    const again = await second.reopen('deploy', kept);
    await state(again, 'succeeded');
    await again.locator('#outcome', { hasText: 'all is well' }).waitFor();
}

async function expires(tools, world) {
    const chat = await Chat.open(tools, world);
    const frame = await chat.call('brief');
    await state(frame, 'running');
    const kept = chat.calls[0].settled;
    await world.hasten();
    const client = world.client();
    await until('the task has expired', () => client.get(chat.task(0)).then(() => false, () => true));
    const again = await chat.reopen('brief', kept);
    await state(again, 'no longer kept');
    const looks = chat.looks(1);
    check(looks === 1, `it looks once: ${looks}`);
    check(await again.getByRole('button').filter({ visible: true }).count() === 0, 'nothing can be done');
}

async function twoViews(tools, world) {
    const [ann, other] = [await Chat.open(tools, world), await Chat.open(tools, world, { modern: true })];
    const first = await ann.call('ask');
    await state(first, 'needs an answer');
    const second = await other.reopen('ask', ann.calls[0].settled);
    await state(second, 'needs an answer');
    await second.getByLabel('Note (optional)').fill('half typed');
    await until('the second view looks again', () => other.looks(0) >= 3);
    check(await second.getByLabel('Note (optional)').inputValue() === 'half typed', 'typed text stays');
    await first.getByLabel('Region').selectOption('north');
    await first.getByRole('button', { name: 'Answer' }).click();
    for (const frame of [first, second]) await state(frame, 'succeeded');
    check(await second.locator('form').count() === 0, 'the question is gone in the other view');
}

// A tool that does not let a model answer: the view shows the question, and where to answer it.
async function notByModel(tools, world, modern) {
    const chat = await Chat.open(tools, world, { modern });
    const frame = await chat.call('approve');
    await frame.locator('.card', { hasText: 'Roll out to all regions?' }).waitFor();
    check(await frame.locator('form').count() === 0, 'there is no form');
    await frame.locator('.card', { hasText: 'A person must answer this' }).waitFor();
    await frame.getByRole('button', { name: 'Answer it in the console' }).click();
    const { url } = (await chat.until('ui/open-link')).params;
    check(url === `${world.origin}/console/tasks/${chat.task(0)}`, url);
    const forced = await chat.tool({ name: 'task_answer', arguments: { task_id: chat.task(0), content: { regions: 3 } } }, 'app');
    check(forced.isError && forced.content[0].text.includes('a model must not'), JSON.stringify(forced));
}

async function onlyLooks(tools) {
    await withWorld({ keys: true, extra: KEYS_TOOLS }, async (world) => {
        const ann = await Chat.open(tools, world, { name: 'ann' });
        const own = await ann.call('guarded');
        await own.locator('.card', { hasText: 'must be answered by somebody else' }).waitFor();
        check(await own.locator('form').count() === 0, 'the owner has no form');

        // Ben may look and answer, and not cancel.
        const ben = await Chat.open(tools, world, { name: 'ben' });
        const seen = await ben.reopen('guarded', ann.calls[0].settled);
        await state(seen, 'needs an answer');
        check(await seen.getByRole('button', { name: 'Cancel the task' }).count() === 0, 'no cancel');
        const forced = await ben.tool({ name: 'task_cancel', arguments: { task_id: ann.task(0) } }, 'app');
        check(forced.isError, JSON.stringify(forced));
        await seen.getByLabel('Go ahead').check();
        await seen.getByRole('button', { name: 'Answer' }).click();
        for (const frame of [own, seen]) await state(frame, 'succeeded');

        // What is not shared is not there.
        const other = await ann.call('deploy', { revision: 'a', delay_ms: HOUR });
        await state(other, 'running');
        const hidden = await ben.reopen('deploy', ann.calls[1].settled);
        await state(hidden, 'no longer kept');
    });
}

async function hiddenStops(tools, world) {
    const chat = await Chat.open(tools, world);
    const frame = await chat.call('deploy', { revision: 'a', delay_ms: HOUR });
    await state(frame, 'running');
    await until('it looks twice', () => chat.looks(0) >= 2);
    // Scrolled out of sight.
    await chat.page.evaluate(() => { document.querySelector('main').style.marginTop = '9000px'; });
    await until('the view knows', () => frame.locator('html').evaluate(() => document.hidden || !isSeen));
    const before = chat.looks(0);
    // The other view looks three times meanwhile.
    await chat.page.evaluate(() => { document.querySelector('h1').style.marginTop = '0'; });
    const watch = await Chat.open(tools, world);
    const other = await watch.reopen('deploy', chat.calls[0].settled);
    await state(other, 'running');
    await until('another view looks three times', () => watch.looks(0) >= 3);
    check(chat.looks(0) <= before + 1, `${chat.looks(0)} looks after ${before}`);
    await chat.page.evaluate(() => { document.querySelector('main').style.marginTop = '0'; });
    await until('it looks again', () => chat.looks(0) > before + 1);
}

async function showsLog(tools, world) {
    const chat = await Chat.open(tools, world);
    const frame = await chat.call('prints');
    await frame.locator('#lines', { hasText: 'line 1' }).waitFor();
    await frame.locator('#time', { hasText: /\d+ of 600/ }).waitFor();
    await frame.locator('#lines', { hasText: 'line 12' }).waitFor();
    await frame.locator('#log summary').click();
    const withLog = () => chat.heard.filter(({ params }) => params?.arguments?.log).length;
    const [logs, looks] = [withLog(), chat.looks(0)];
    await until('it looks three times', () => chat.looks(0) >= looks + 3);
    check(withLog() <= logs + 1, 'a closed log is not read');
    await frame.getByRole('button', { name: 'Cancel the task' }).click();
    await frame.getByRole('button', { name: 'Yes, cancel it' }).click();
    await state(frame, 'cancelled');
}

export default [
    ['2025-11-25: starts, asks, is answered, ends, is cancelled', (tools) => withWorld({}, (world) => wholeCourse(tools, world, false))],
    ['2026-07-28: starts, asks, is answered, ends, is cancelled', (tools) => withWorld({}, (world) => wholeCourse(tools, world, true))],
    ['2025-11-25: a short call, and a refused one', (tools) => withWorld({}, (world) => shortCall(tools, world, false))],
    ['2026-07-28: a short call, and a refused one', (tools) => withWorld({}, (world) => shortCall(tools, world, true))],
    ['kill -9 of the server', (tools) => withWorld({}, (world) => survivesKill(tools, world))],
    ['a conversation is opened again', (tools) => withWorld({}, (world) => reopened(tools, world))],
    ['an expired task', (tools) => withWorld({}, (world) => expires(tools, world))],
    ['two views of one task', (tools) => withWorld({}, (world) => twoViews(tools, world))],
    ['2025-11-25: a question that a model must not answer', (tools) => withWorld({}, (world) => notByModel(tools, world, false))],
    ['2026-07-28: a question that a model must not answer', (tools) => withWorld({}, (world) => notByModel(tools, world, true))],
    ['four eyes, a caller who may not cancel, and one who may not look', onlyLooks],
    ['a view that is not seen does not poll', (tools) => withWorld({}, (world) => hiddenStops(tools, world))],
    ['the log is followed while it is open', (tools) => withWorld({}, (world) => showsLog(tools, world))],
];
