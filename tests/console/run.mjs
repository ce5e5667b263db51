// Runs the browser tests of the console: node run.mjs [FILTER] [--pictures FOLDER]. Exits with 1 after a failure.

import path from 'node:path';

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
import { openBrowser, options, runAll, sound } from './browser.mjs';

const { folder, filter } = await options();
const packages = process.env.CONSOLE_PACKAGES ?? path.resolve('target/console');
const { browser, page, axe } = await openBrowser(packages, { width: 1280, height: 800 });

// What a test gets: `page` opens a page in a browser profile of its own, `sound` holds it against WCAG 2.2 AA.
const tools = {
    folder,
    page,
    // Opens a page whose browser is signed in.
    async signedIn(world, settings = {}, name, key = name && world.key(name)) {
        const page = await this.page(settings);
        await page.goto(name ? `${world.origin}/console/login` : world.signInAddress());
        if (name) await page.getByLabel('API key').fill(key);
        await page.getByRole('button', { name: /^Sign in/ }).first().click();
        await page.waitForURL((url) => !url.pathname.includes('/login'));
        return page;
    },
    async sound(page, where) {
        await page.evaluate(axe);
        await sound(page, where);
    },
};

await runAll(browser, { pages, acts, live, principals, issuer, replicas, github, attacks, pictures, load }, filter, tools);
