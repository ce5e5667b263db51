// How the view looks and behaves: light and dark, narrow and wide, by keyboard, full screen, WCAG 2.2 AA, and no request.

import { check } from '../console/check.mjs';
import { until } from '../console/world.mjs';
import { Chat, state } from './chat.mjs';
import { withWorld } from './course.mjs';

const HOUR = 3_600_000;

// Colours as a host may give them, for both schemes.
export const COLOURS = {
    '--color-background-primary': 'light-dark(#faf9f5, #262624)', '--color-background-secondary': 'light-dark(#f0eee6, #30302e)',
    '--color-text-primary': 'light-dark(#141413, #faf9f5)', '--color-text-secondary': 'light-dark(#5e5d59, #b8b6ad)',
    '--color-border-primary': 'light-dark(#d4d2c8, #4d4c48)', '--border-radius-md': '10px', '--font-sans': 'system-ui, sans-serif',
};

// The views of this chat: one asks, one runs, one failed, one that a model must not answer, one succeeded.
export async function views(chat, world) {
    const asks = await chat.call('ask');
    await state(asks, 'needs an answer');
    const runs = await chat.call('prints');
    await runs.locator('#lines', { hasText: 'line 2' }).waitFor();
    const failed = await chat.call('shell');
    await state(failed, 'failed');
    const person = await chat.call('approve');
    await state(person, 'needs an answer');
    const done = await chat.call('deploy', { revision: 'a', delay_ms: HOUR, steps: 5, text: 'Release 4711 is in all regions.' });
    await state(done, 'running');
    await world.hasten();
    await state(done, 'succeeded');
    return { asks, runs, failed, person, done };
}

async function isSound(tools, world) {
    for (const [theme, width, variables] of [['light', 900, {}], ['dark', 900, {}], ['light', 360, COLOURS], ['dark', 360, COLOURS]]) {
        const chat = await Chat.open(tools, world, {
            look: { theme, styles: { variables } }, browser: { colorScheme: theme, viewport: { width, height: 4_000 } },
        });
        for (const [name, frame] of Object.entries(await views(chat, world))) {
            const where = `${name}, ${theme}, ${width}`;
            await tools.sound(frame, where);
            const { over, background } = await frame.locator('html').evaluate((html) => ({
                over: html.scrollWidth - html.clientWidth, background: getComputedStyle(document.body).backgroundColor,
            }));
            check(over <= 0, `${where}: it scrolls sideways by ${over}`);
            const dark = theme === 'dark';
            check(/rgb\((\d+)/.exec(background)[1] < 128 === dark, `${where}: ${background}`);
        }
        check(chat.errors.length === 0 && chat.page.problems.length === 0, [...chat.errors, ...chat.page.problems].join('\n'));
        await chat.close();
        tools.chats.delete(chat);
    }
}

// Everything can be done without a pointer.
async function byKeyboard(tools, world) {
    const chat = await Chat.open(tools, world);
    const frame = await chat.call('ask');
    await state(frame, 'needs an answer');
    const { keyboard } = chat.page;
    const focused = (test) => frame.locator('html').evaluate((_, name) => {
        const { activeElement } = document;
        return activeElement?.labels?.[0]?.textContent === name || activeElement?.textContent === name;
    }, test);
    const tabTo = async (name) => {
        for (let n = 0; n < 40; n += 1) {
            await keyboard.press('Tab');
            if (await focused(name)) return;
        }
        throw new Error(`the keyboard does not reach ${name}`);
    };
    await tabTo('Region');
    await keyboard.press('ArrowDown');
    await tabTo('Share in percent');
    await tabTo('Cancel the task');
    await keyboard.press('Enter');
    check(await focused('Keep it running'), 'the safe choice has the focus');
    await keyboard.press('Escape');
    check(await focused('Cancel the task'), 'the focus is back');
    await frame.getByLabel('Region').focus();
    await tabTo('Answer');
    await keyboard.press('Enter');
    await state(frame, 'succeeded');
    const { content } = chat.heard.find(({ params }) => params?.name === 'task_answer').params.arguments;
    check(content.region === 'north' && content.share === 10, JSON.stringify(content));
}

async function fullScreen(tools, world) {
    const chat = await Chat.open(tools, world);
    const frame = await chat.call('deploy', { revision: 'a', delay_ms: HOUR });
    await state(frame, 'running');
    await frame.getByRole('button', { name: 'Full screen' }).click();
    check((await chat.until('ui/request-display-mode')).params.mode === 'fullscreen', 'the request');
    await frame.getByRole('button', { name: 'Leave full screen' }).waitFor();
    await frame.locator('html.fullscreen').waitFor();
    await frame.getByRole('button', { name: 'Leave full screen' }).press('Escape');
    await frame.getByRole('button', { name: 'Full screen', exact: true }).waitFor();

    // The host changes its theme while the view is open.
    await chat.page.evaluate(() => window.chat.context({ theme: 'dark' }));
    await until('the view is dark', () => frame.locator('body').evaluate((body) => getComputedStyle(body).backgroundColor === 'rgb(18, 22, 28)'));
}

// A host without full screen, links and a theme.
async function fewAbilities(tools, world) {
    const chat = await Chat.open(tools, world, { look: { availableDisplayModes: undefined, theme: undefined }, abilities: { openLinks: undefined } });
    const frame = await chat.call('deploy', { revision: 'a', delay_ms: HOUR, link: 'https://engine.example/' });
    await state(frame, 'running');
    const buttons = await frame.getByRole('button').filter({ visible: true }).allTextContents();
    check(buttons.join() === 'Cancel the task', buttons.join());
}

async function noRequest(tools, world) {
    const chat = await Chat.open(tools, world);
    const { asks } = await views(chat, world);
    await asks.getByRole('button', { name: 'Decline' }).click();
    await state(asks, 'failed');
    const own = new Set([`http://127.0.0.1:${chat.server.address().port}`, `http://localhost:${chat.server.address().port}`, 'null']);
    const outside = chat.requests.filter((url) => !own.has(new URL(url).origin));
    check(outside.length === 0, outside.join('\n'));
    const paths = new Set(chat.requests.map((url) => new URL(url).pathname));
    check([...paths].every((path) => ['/', '/page.js', '/sandbox.html', '/favicon.ico', 'srcdoc', 'blank'].includes(path)), [...paths].join(' '));
}

export default [
    ['light and dark, narrow and wide: WCAG 2.2 AA', (tools) => withWorld({}, (world) => isSound(tools, world))],
    ['by keyboard', (tools) => withWorld({}, (world) => byKeyboard(tools, world))],
    ['full screen and a change of the theme', (tools) => withWorld({}, (world) => fullScreen(tools, world))],
    ['a host that can do little', (tools) => withWorld({}, (world) => fewAbilities(tools, world))],
    ['no request leaves the page', (tools) => withWorld({}, (world) => noRequest(tools, world))],
];
