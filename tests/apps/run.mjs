// Runs the tests of the view in chats: node run.mjs [FILTER] [--pictures FOLDER]. Exits with 1 after a failure.

import { mkdir, mkdtemp } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';

import { check } from '../console/check.mjs';
import { LIMIT } from '../console/world.mjs';
import attacks from './attacks.mjs';
import { PACKAGES } from './chat.mjs';
import course from './course.mjs';
import looks from './looks.mjs';
import pictures from './pictures.mjs';
import tokens from './tokens.mjs';

const require = createRequire(path.join(PACKAGES, 'package.json'));
const { chromium } = require('playwright-core');
const AXE = require('axe-core').source;

const args = process.argv.slice(2);
const at = args.indexOf('--pictures');
const folder = at < 0 ? await mkdtemp(path.join(tmpdir(), 'pictures-')) : path.resolve(args.splice(at, 2)[1]);
await mkdir(folder, { recursive: true });
const filter = args[0] ?? '';

// Chromium's own sandbox cannot be set up by root, and these pages are our own.
const sandbox = process.getuid() === 0 ? ['--no-sandbox'] : [];
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: sandbox });

const tools = {
    folder,
    chats: new Set(),
    async page(options = {}) {
        const context = await browser.newContext({
            viewport: { width: 900, height: 900 }, timezoneId: 'UTC', locale: 'en-GB', ...options,
        });
        context.setDefaultTimeout(LIMIT);
        const page = await context.newPage();
        page.problems = [];
        // `AppRenderer` sends its context once before it is connected, and again after that.
        page.on('pageerror', (error) => { if (error.message !== 'Not connected') page.problems.push(String(error)); });
        page.on('console', (message) => {
            if (message.type() === 'error') page.problems.push(message.text());
        });
        return page;
    },
    // Holds a view against WCAG 2.2 AA.
    async sound(frame, where) {
        const body = frame.locator('body');
        await body.evaluate((_, source) => { (0, eval)(source); }, AXE);
        const found = await body.evaluate((body) => body.ownerDocument.defaultView.axe.run({
            runOnly: { type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] },
        }));
        const violations = found.violations.map(
            ({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => `${node.html} ${node.failureSummary}`).join(' | ')}`,
        );
        check(violations.length === 0, `${where}: ${violations.join('\n')}`);
    },
};

let failures = 0;
const began = Date.now();
for (const [file, tests] of Object.entries({ course, looks, attacks, tokens, pictures })) {
    for (const [name, test] of tests) {
        const title = `${file}: ${name}`;
        if (!title.includes(filter)) continue;
        const from = Date.now();
        try {
            await test(tools);
            console.log(`ok ${title} (${Date.now() - from} ms)`);
        } catch (error) {
            failures += 1;
            console.log(`FAILED ${title}: ${error.stack}`);
            for (const chat of tools.chats) console.log(JSON.stringify([chat.errors, chat.page.problems, chat.heard.slice(-3)]).slice(0, 3_000));
        }
        for (const chat of tools.chats) await chat.close();
        tools.chats.clear();
    }
}
await browser.close();
console.log(`${failures} failed, ${Math.round((Date.now() - began) / 1000)} s`);
process.exit(failures ? 1 : 0);
