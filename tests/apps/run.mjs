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
const { browser, page, axe } = await openBrowser(PACKAGES, { width: 900, height: 900 }, isNoise);

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

// Ends the chats of a test. After a failure, it says what they saw last.
async function endChats(failed) {
    for (const chat of tools.chats) {
        const seen = [chat.errors, chat.page.problems, chat.heard.slice(-3)];
        if (failed) console.log(JSON.stringify(seen).slice(0, 3_000));
        await chat.close();
    }
    tools.chats.clear();
}

await runAll(browser, { course, looks, attacks, tokens, pictures }, filter, tools, endChats);
