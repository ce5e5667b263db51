// A person signs in at an issuer: the certified OpenID provider `oidc-provider`, in this process. It is told what to
// do by the pages that it brings along.

import { createRequire } from 'node:module';
import http from 'node:http';
import path from 'node:path';

import { check } from './check.mjs';
import { World } from './world.mjs';

const PACKAGES = process.env.CONSOLE_PACKAGES ?? path.resolve('target/console');
const require = createRequire(path.join(PACKAGES, 'package.json'));
const { Provider } = await import(require.resolve('oidc-provider'));

const SECRET = 'secret-of-the-console-client';

// An issuer at a free port of this machine, with one client that comes back to these addresses.
class Issuer {
    static async start(callbacks) {
        const issuer = new Issuer();
        issuer.server = http.createServer((request, response) => issuer.handle(request, response));
        await new Promise((resolve) => issuer.server.listen(0, '127.0.0.1', resolve));
        issuer.url = `http://127.0.0.1:${issuer.server.address().port}`;
        const claims = (id) => ({ sub: id, name: `Person ${id}` });
        const provider = new Provider(issuer.url, {
            clients: [{
                client_id: 'console', client_secret: SECRET, redirect_uris: callbacks, response_types: ['code'],
                grant_types: ['authorization_code'],
            }],
            scopes: ['openid', 'profile', 'bridge'],
            claims: { openid: ['sub'], profile: ['name'] },
            conformIdTokenClaims: false,
            pkce: { required: () => true },
            cookies: { keys: ['a key of the test issuer'] },
            findAccount: (_, id) => ({ accountId: id, claims: () => claims(id) }),
        });
        issuer.handle = provider.callback();
        return issuer;
    }

    config(port) {
        return `mode = "oauth"
resource = "http://127.0.0.1:${port}/mcp"
required_scopes = ["bridge"]

[[auth.issuers]]
issuer = "${this.url}"
sign_in = { client_id = "console", client_secret = "${SECRET}" }

[access]
operate = { principals = ['["${this.url}","olga"]'] }
`;
    }

    stop() {
        this.server.closeAllConnections();
        return new Promise((resolve) => this.server.close(resolve));
    }
}

// A server whose persons sign in at an issuer. Its address must be known to both before they start for good.
async function start() {
    const world = await World.start();
    const issuer = await Issuer.start([`${world.origin}/console/login/callback`]);
    await world.kill();
    world.auth = issuer.config(world.port);
    world.console = `url = "${world.origin}"`;
    await world.serve();
    return [world, issuer, async () => { await world.stop(); await issuer.stop(); }];
}

// Signs in at the issuer's own pages, up to its question whether the client may have what it asks for.
async function atIssuer(page, world, login) {
    await page.getByRole('link', { name: /^Sign in at/ }).click();
    await page.locator('input[name=login]').fill(login);
    await page.locator('input[name=password]').fill('any');
    await page.getByRole('button', { name: 'Sign-in' }).click();
    await page.getByRole('button', { name: 'Continue' }).waitFor();
}

async function signIn(page, world, login, address = '/console/tasks') {
    await page.goto(`${world.origin}${address}`);
    await atIssuer(page, world, login);
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.waitForURL(`${world.origin}${address}`);
}

async function signsIn(tools) {
    const [world, issuer, stop] = await start();
    try {
        const page = await tools.page();
        await page.goto(`${world.origin}/console/login`);
        await tools.sound(page, 'sign-in');
        await signIn(page, world, 'paul');
        check((await page.textContent('details.account summary')).includes('Person paul'), 'the name is shown');
        await page.goto(`${world.origin}/console/tools/deploy`);
        await page.getByLabel('revision').fill('v1');
        await page.getByRole('button', { name: 'Start' }).click();
        await page.waitForURL(/\/console\/tasks\/[a-z0-9]+$/);
        const task = page.url();
        const cookies = await page.context().cookies(`${world.origin}/console`);
        check(!cookies.some(({ name }) => name.includes('sign-in')), 'the cookie of the sign-in is gone');
        check(cookies.every((cookie) => cookie.httpOnly && !cookie.value.includes('paul')), 'the cookie is sealed');

        // Another person at the same issuer is another owner; one of them operates.
        const other = await tools.page();
        await signIn(other, world, 'nora');
        check((await other.goto(task)).status() === 404, 'another person sees the task');
        const olga = await tools.page();
        await signIn(olga, world, 'olga');
        check((await olga.goto(task)).status() === 200, 'an operator sees the task');

        // A session outlives the server, and ends when its issuer is trusted no more.
        await world.kill();
        await world.serve();
        check((await page.goto(task)).status() === 200, 'the session is still valid');
        await world.kill();
        world.auth = world.auth.replace(/sign_in = .*/, '');
        await world.serve();
        await page.goto(task);
        check(page.url().includes('/console/login'), 'the session has ended with the trust in its issuer');
    } finally {
        await stop();
    }
}

async function refuses(tools) {
    const [world, issuer, stop] = await start();
    try {
        // A person who declines at the issuer.
        const page = await tools.page();
        await page.goto(`${world.origin}/console`);
        await atIssuer(page, world, 'paul');
        await page.getByRole('link', { name: /Cancel/ }).click();
        await page.locator('[role=alert]', { hasText: 'access_denied' }).waitFor();

        // The callback of one browser, opened in another: the code of an attacker must not sign in a victim.
        const attacker = await tools.page();
        let callback;
        attacker.on('request', (request) => { if (request.url().includes('/callback?')) callback = request.url(); });
        await signIn(attacker, world, 'mallory', '/console');
        const victim = await tools.page();
        const refused = async (address, why) => {
            await victim.goto(address);
            const text = await victim.textContent('[role=alert]');
            check(text.includes(why), `${address}: ${text}`);
            await victim.goto(`${world.origin}/console`);
            check(victim.url().includes('/console/login'), `${address} signed in`);
        };
        await refused(callback, 'not the sign-in that this browser began');
        const began = async () => {
            await victim.route(`${issuer.url}/**`, (route) => route.abort());
            await victim.goto(`${world.origin}/console/login`);
            await victim.getByRole('link', { name: /^Sign in at/ }).click().catch(() => {});
            for (let n = 0; n < 600; n += 1) {
                if ((await victim.context().cookies(`${world.origin}/console`)).some(({ name }) => name.includes('sign-in'))) return;
                await new Promise((resolve) => setTimeout(resolve, 100));
            }
            throw new Error('no sign-in began');
        };
        await began();
        await refused(callback, 'not the sign-in that this browser began');
        await began();
        await refused(`${world.origin}/console/login/callback?error=%3Cscript%3E`, 'an unknown error');
        await refused(`${world.origin}/console/login/start?issuer=https://evil.example`, 'not from an issuer');
        const response = await victim.request.get(`${world.origin}/console/login/start?issuer=${encodeURIComponent(issuer.url)}&next=https://evil.example`, { maxRedirects: 0 });
        const location = response.headers().location ?? '';
        check(response.status() === 303 && location.startsWith(`${issuer.url}/`) && !location.includes('evil'), location);

        // A secret that the issuer does not know: the person is told where the reason is, and the log has it.
        await world.kill();
        const auth = world.auth;
        world.auth = auth.replace(SECRET, 'another secret');
        await world.serve();
        const page2 = await tools.page();
        await page2.goto(`${world.origin}/console`);
        await atIssuer(page2, world, 'paul');
        await page2.getByRole('button', { name: 'Continue' }).click();
        await page2.locator('[role=alert]', { hasText: 'the server\'s log says why' }).waitFor();
        check(/a person cannot sign in at the issuer.*401/.test(world.server.said), world.server.said);
        check(!world.server.said.includes('another secret'), 'the secret is in the log');
        world.auth = auth;

        // An issuer that does not answer.
        await issuer.stop();
        await world.kill();
        await world.serve();
        await victim.unroute(`${issuer.url}/**`);
        await refused(`${world.origin}/console/login/start?issuer=${encodeURIComponent(issuer.url)}`, 'the server\'s log says why');
    } finally {
        await stop();
    }
}

export default [
    ['a person signs in at an issuer', signsIn],
    ['a sign-in at an issuer is refused', refuses],
];
