// What browser tests share: Debian's Chromium, pages in profiles of their own, WCAG, and the run of all tests. Arguments of
// a run: [FILTER] [--pictures FOLDER]. It knows neither the console nor the view.

import { createRequire } from 'node:module';
import { mkdir, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';

import { check } from './check.mjs';
import { LIMIT } from './world.mjs';

const TAGS = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];

// Opens the browser with the packages of this folder. `isNoise` says of the text of an error whether it means nothing.
export async function openBrowser(packages, viewport, isNoise = () => false) {
    const require = createRequire(path.join(packages, 'package.json'));
    // Chromium's own sandbox cannot be set up by root, and these pages are our own. The shared memory of a container is
    // too small for it.
    const sandbox = process.getuid() === 0 ? ['--no-sandbox'] : [];
    const args = [...sandbox, '--disable-dev-shm-usage'];
    const browser = await require('playwright-core').chromium.launch({ executablePath: '/usr/bin/chromium', args });
    const page = async (options = {}) => {
        const context = await browser.newContext({ viewport, timezoneId: 'UTC', locale: 'en-GB', ...options });
        context.setDefaultTimeout(LIMIT);
        const page = await context.newPage();
        page.problems = [];
        const note = (problem) => { if (!isNoise(problem)) page.problems.push(problem); };
        page.on('pageerror', (error) => note(String(error)));
        page.on('console', (message) => { if (message.type() === 'error') note(message.text()); });
        return page;
    };
    return { browser, page, axe: require('axe-core').source };
}

// Holds a page or the body of a frame, into which axe was loaded, against WCAG 2.2 AA.
export async function sound(target, where) {
    const found = await target.evaluate((...given) => window.axe.run({ runOnly: { type: 'tag', values: given.at(-1) } }), TAGS);
    const violations = found.violations.map(
        ({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => `${node.html} ${node.failureSummary}`).join(' | ')}`,
    );
    check(violations.length === 0, `${where}: ${violations.join('\n')}`);
}

// Returns the folder for pictures and the filter of this run.
export async function options(args = process.argv.slice(2)) {
    const at = args.indexOf('--pictures');
    const folder = at < 0 ? await mkdtemp(path.join(tmpdir(), 'pictures-')) : path.resolve(args.splice(at, 2)[1]);
    await mkdir(folder, { recursive: true });
    return { folder, filter: args[0] ?? '' };
}

// Runs the tests of these files, one after the other, and exits: with 1 after a failure. `after` ends what a test left, and
// is told whether it failed.
export async function runAll(browser, files, filter, tools, after) {
    let failures = 0;
    const began = Date.now();
    for (const [file, tests] of Object.entries(files)) {
        for (const [name, test] of tests) {
            const title = `${file}: ${name}`;
            if (!title.includes(filter)) continue;
            const from = Date.now();
            let failed = false;
            try {
                await test(tools);
                console.log(`ok ${title} (${Date.now() - from} ms)`);
            } catch (error) {
                failed = true;
                failures += 1;
                console.log(`FAILED ${title}: ${error.stack}`);
            }
            await after?.(failed);
            for (const context of browser.contexts()) await context.close();
        }
    }
    await browser.close();
    console.log(`${failures} failed, ${Math.round((Date.now() - began) / 1000)} s`);
    process.exit(failures ? 1 : 0);
}
