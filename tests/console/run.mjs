// Runs the browser tests of the console: node run.mjs [FILTER] [--pictures FOLDER]. Exits with 1 after a failure.

import { createRequire } from 'node:module';
import { mkdir, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';

const PACKAGES = process.env.CONSOLE_PACKAGES ?? path.resolve('target/console');
const require = createRequire(path.join(PACKAGES, 'package.json'));
const { chromium } = require('playwright-core');
const AXE = require('axe-core').source;

import acts from './acts.mjs';
import attacks from './attacks.mjs';
import github from './github.mjs';
import issuer from './issuer.mjs';
import live from './live.mjs';
import load from './load.mjs';
import pages from './pages.mjs';
import pictures from './pictures.mjs';
import principals from './principals.mjs';
import replicas from './replicas.mjs';
import { check } from './check.mjs';
import { LIMIT } from './world.mjs';

const args = process.argv.slice(2);
const at = args.indexOf('--pictures');
const folder = at < 0 ? await mkdtemp(path.join(tmpdir(), 'pictures-')) : path.resolve(args.splice(at, 2)[1]);
await mkdir(folder, { recursive: true });
const filter = args[0] ?? '';

// Chromium's own sandbox cannot be set up by root, and these pages are our own.
const sandbox = process.getuid() === 0 ? ['--no-sandbox'] : [];
// The shared memory of a container is too small for it.
const flags = [...sandbox, '--disable-dev-shm-usage'];
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: flags });

// What a test gets: `page` opens a page in a browser profile of its own, `sound` holds it against WCAG 2.2 AA.
const tools = {
    folder,
    async page(options = {}) {
        const context = await browser.newContext({
            viewport: { width: 1280, height: 800 }, timezoneId: 'UTC', locale: 'en-GB', ...options,
        });
        context.setDefaultTimeout(LIMIT);
        const page = await context.newPage();
        page.problems = [];
        page.on('pageerror', (error) => page.problems.push(String(error)));
        page.on('console', (message) => {
            if (message.type() === 'error') page.problems.push(message.text());
        });
        return page;
    },
    // Opens a page whose browser is signed in.
    async signedIn(world, options = {}, name, key = name && world.key(name)) {
        const page = await this.page(options);
        await page.goto(name ? `${world.origin}/console/login` : world.signInAddress());
        if (name) await page.getByLabel('API key').fill(key);
        await page.getByRole('button', { name: /^Sign in/ }).first().click();
        await page.waitForURL((url) => !url.pathname.includes('/login'));
        return page;
    },
    async sound(page, where) {
        await page.evaluate(AXE);
        const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];
        const found = await page.evaluate((values) => axe.run({ runOnly: { type: 'tag', values } }), tags);
        const violations = found.violations.map(
            ({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => `${node.html} ${node.failureSummary}`).join(' | ')}`,
        );
        check(violations.length === 0, `${where}: ${violations.join('\n')}`);
    },
};


let failures = 0;
const began = Date.now();
for (const [file, tests] of Object.entries({ pages, acts, live, principals, issuer, replicas, github, attacks, pictures, load })) {
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
        }
        for (const context of browser.contexts()) await context.close();
    }
}
await browser.close();
console.log(`${failures} failed, ${Math.round((Date.now() - began) / 1000)} s`);
process.exit(failures ? 1 : 0);
