// Runs the tests of the view in chats: node run.mjs [FILTER] [--pictures FOLDER]. Exits with 1 after a failure.

import { openBrowser, options, runAll, sound } from '../console/browser.mjs';
import attacks from './attacks.mjs';
import { PACKAGES } from './chat.mjs';
import course from './course.mjs';
import looks from './looks.mjs';
import pictures from './pictures.mjs';
import tokens from './tokens.mjs';

const { folder, filter } = await options();
// `AppRenderer` sends its context once before it is connected, and again after that.
const isNoise = (problem) => problem.endsWith('Not connected');
const { browser, page, axe } = await openBrowser(PACKAGES, { width: 900, height: 4_000 }, isNoise);

const tools = {
    folder,
    page,
    chats: new Set(),
    // Holds a view against WCAG 2.2 AA.
    async sound(frame, where) {
        const body = frame.locator('body');
        await body.evaluate((_, source) => { (0, eval)(source); }, axe);
        await sound(body, where);
    },
};

// Says what a chat showed last: for each view its place in the window, its state and its note.
async function tell(chat) {
    for (const { n, tool } of chat.calls) {
        const place = await chat.page.locator(`[data-call="${n}"]`).boundingBox().catch(() => undefined);
        const text = (id) => chat.frame(n).locator(id).textContent({ timeout: 2_000 }).catch(() => 'is not there');
        console.log(`view ${n} of ${tool}, from ${place?.y} to ${place?.y + place?.height}, looked ${chat.looks(n)} times: state`
            + ` '${await text('#state')}', note '${await text('#note')}'`);
    }
    console.log(JSON.stringify([chat.errors, chat.page.problems, chat.heard.slice(-3)]).slice(0, 3_000));
}

// Ends the chats of a test. After a failure, it says what they saw last.
async function endChats(failed) {
    for (const chat of tools.chats) {
        if (failed) await tell(chat);
        await chat.close();
    }
    tools.chats.clear();
}

await runAll(browser, { course, looks, attacks, tokens, pictures }, filter, tools, endChats);
