// Attacks through the browser. None may work: no script runs, nothing changes, nothing leaks.

import { createServer, request as httpRequest } from 'node:http';

import { check } from './check.mjs';
import { HOSTILE, LIMIT, until, World } from './world.mjs';

// Characters that steer a terminal or the direction of text.
const STEERING = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/;

// One server for all attacks, with two principals and a site of the attacker.
let shared;
async function scene() {
    shared ??= (async () => {
        const world = await World.start({ keys: true });
        const client = world.client('ann');
        const runs = await client.start('deploy', { revision: HOSTILE, delay_ms: 3_600_000 });
        const ended = await client.start('deploy', { revision: 'x', delay_ms: 0, text: HOSTILE });
        const asks = await client.start('hostile');
        const shell = await client.start('shell');
        await client.until(ended, 'completed');
        await client.until(shell, 'failed');
        await client.until(asks, 'input_required');
        return { world, client, runs, ended, asks, shell, origin: world.origin };
    })();
    return shared;
}

// Opens a page of the attacker: at 127.0.0.1 it is of the same site as the console, at localhost of another.
async function foreign(page, host, body) {
    const server = createServer((_, response) => {
        response.setHeader('content-type', 'text/html');
        response.end(`<!doctype html><title>evil</title>${body}`);
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    await page.goto(`http://${host}:${server.address().port}/`);
    return server;
}

// Checks that no text of an engine or a caller became anything but text.
async function onlyText(page, where) {
    const found = await page.evaluate(() => ({
        pwned: window.pwned, text: document.body.innerText,
        elements: document.querySelectorAll('main script, main img, main iframe, main svg[onload], main object, main base').length,
        handlers: [...document.querySelectorAll('*')].filter((element) => [...element.attributes].some(({ name }) => name.startsWith('on'))).length,
        styles: document.querySelectorAll('[style]').length,
        // A form's property `action` may be one of its fields.
        links: [...document.querySelectorAll('a[href], area[href], form[action], [formaction]')].map((element) =>
            new URL(['href', 'action', 'formaction'].map((name) => element.getAttribute(name)).find((value) => value !== null), location.href).href),
    }));
    check(found.pwned === undefined, `${where}: a script ran`);
    check(found.elements === 0 && found.handlers === 0, `${where}: text became markup`);
    check(!STEERING.test(found.text), `${where}: a control character is shown: ${JSON.stringify(STEERING.exec(found.text))}`);
    for (const link of found.links) {
        check(/^https?:/.test(link) && !link.includes('evil.example'), `${where}: a link to ${link}`);
    }
}

async function shows(tools, address, expected, name = 'ann') {
    const { origin } = await scene();
    const page = await tools.signedIn((await scene()).world, {}, name);
    await page.goto(`${origin}/console${address}`);
    if (expected) {
        const text = await page.textContent('body');
        check(text.includes(expected), `${address} does not show ${expected}: ${text.slice(0, 2_000)}`);
    }
    await onlyText(page, address);
    check(page.problems.length === 0, `${address}: ${page.problems.join('\n')}`);
    return page;
}

const SCRIPT = '<script>window.pwned = 1</script>';

// A form of another site that submits itself.
async function forgedForm(tools, host, path, fields) {
    const { world, client, origin, runs } = await scene();
    const page = await tools.signedIn(world, {}, 'ann');
    const inputs = Object.entries(fields).map(([name, value]) => `<input name="${name}" value="${value}">`).join('');
    const answers = [];
    page.on('response', (response) => { if (response.url() === `${origin}/console/${path}`) answers.push(response.status()); });
    const server = await foreign(page, host, `<form method="post" action="${origin}/console/${path}">${inputs}</form>`);
    try {
        await Promise.all([page.waitForURL(`${origin}/**`), page.evaluate(() => document.forms[0].submit())]);
        check(answers[0] === 403 || answers[0] === 401, `it is answered with ${answers}`);
        check((await client.get(runs)).status === 'working', 'the task still runs');
    } finally {
        server.close();
    }
}

// Sends a request with exactly these headers. Resolves with its status, headers and body.
function raw(origin, path, headers = {}, { method = 'GET', body } = {}) {
    return new Promise((resolve, reject) => {
        const request = httpRequest(`${origin}${path}`, { method, headers, timeout: LIMIT }, (response) => {
            let text = '';
            response.on('data', (data) => { text += data; });
            response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, text }));
        });
        // A server may answer and close before it has read a body that is too large.
        request.on('error', reject);
        request.end(body);
    });
}

async function cookieOf(page) {
    const cookies = await page.context().cookies();
    check(cookies.length === 1, `one cookie: ${JSON.stringify(cookies)}`);
    return cookies[0];
}

const isSignIn = ({ status, headers }) => status === 303 && headers.location.startsWith('/console/login');

export default [
    ['scripts in the result of a job', async (tools) => shows(tools, `/tasks/${(await scene()).ended}`, SCRIPT)],
    ['scripts in arguments of a caller', async (tools) => shows(tools, `/tasks/${(await scene()).runs}`)],
    ['scripts in a question and in notes', async (tools) => shows(tools, `/tasks/${(await scene()).asks}`, SCRIPT)],
    ['scripts in a question in the inbox', async (tools) => shows(tools, '', SCRIPT)],
    ['scripts in the list of tasks', async (tools) => shows(tools, '/tasks')],
    ['scripts in the description of a tool', async (tools) => shows(tools, '/tools/hostile', SCRIPT)],
    ['scripts in the list of tools', async (tools) => shows(tools, '/tools', '<script>')],
    ['scripts, links and colors in a log', async (tools) => shows(tools, `/tasks/${(await scene()).shell}?log=1`, '<script>window.pwned=1</script>')],
    ['scripts in the filter of a list', async (tools) => {
        await shows(tools, `/tasks?q=${encodeURIComponent(`"><script>window.pwned=1</script>`)}&tool=%22onfocus%3D%22window.pwned%3D1`);
    }],
    ['scripts in the path', async (tools) => {
        const { origin, world } = await scene();
        const page = await tools.signedIn(world, {}, 'ann');
        for (const path of ['tasks/%3Cscript%3Ewindow.pwned=1%3C%2Fscript%3E', 'tools/%22%3E%3Cimg src=x onerror=window.pwned=1%3E', '%00', '..%2f..%2fmcp']) {
            const response = await page.goto(`${origin}/console/${path}`);
            check(response.status() === 404, `${path}: ${response.status()}`);
            await onlyText(page, path);
        }
    }],
    ['inline script, eval and foreign resources are stopped by the policy', async (tools) => {
        const page = await shows(tools, '/tasks');
        const stopped = await page.evaluate(async () => {
            const script = document.createElement('script');
            script.textContent = 'window.pwned = 1';
            document.body.append(script);
            const holder = document.createElement('div');
            holder.setAttribute('onclick', 'window.pwned = 1');
            document.body.append(holder);
            holder.click();
            const sent = await fetch('http://127.0.0.1:9/', { mode: 'no-cors' }).then(() => true, () => false);
            return { pwned: window.pwned, sent };
        });
        check(stopped.pwned === undefined && !stopped.sent, JSON.stringify(stopped));
        check(page.problems.some((problem) => problem.includes('Content Security Policy')), page.problems.join('\n'));
    }],
    ['every response has the headers that browsers need', async (tools) => {
        const { origin, runs, shell } = await scene();
        const page = await shows(tools, '');
        const { name, value } = await cookieOf(page);
        for (const path of ['', '/tasks', `/tasks/${runs}`, `/tasks/${runs}/json`, `/tasks/${shell}/artifacts/report.html`, '/login', '/nowhere', '/assets/nothing']) {
            const { headers } = await raw(origin, `/console${path}`, { cookie: `${name}=${value}` });
            check(headers['x-content-type-options'] === 'nosniff', `${path}: nosniff`);
            check(headers['cache-control'] === 'no-store', `${path}: ${headers['cache-control']}`);
            check(headers['x-frame-options'] === 'DENY', `${path}: x-frame-options`);
            check(/default-src 'none'/.test(headers['content-security-policy']), `${path}: ${headers['content-security-policy']}`);
            check(!/unsafe|\*/.test(headers['content-security-policy']), `${path}: ${headers['content-security-policy']}`);
        }
    }],
    ['a form of another site', async (tools) => forgedForm(tools, 'localhost', `tasks/${(await scene()).runs}/cancel`, {})],
    ['a form of another port of the same host', async (tools) => forgedForm(tools, '127.0.0.1', `tasks/${(await scene()).runs}/cancel`, {})],
    ['a sign-in form of another site', async (tools) => forgedForm(tools, 'localhost', 'login', { key: 'key-of-ben' })],
    ['a sign-out form of another port', async (tools) => forgedForm(tools, '127.0.0.1', 'logout', { everywhere: 'yes' })],
    ['fetch from another origin neither changes nor reads', async (tools) => {
        const { world, client, origin, runs } = await scene();
        for (const host of ['localhost', '127.0.0.1']) {
            const page = await tools.signedIn(world, {}, 'ann');
            const server = await foreign(page, host, '');
            const results = await page.evaluate(async ([origin, runs]) => {
                const attempt = (path, options) => fetch(`${origin}/console${path}`, { credentials: 'include', ...options })
                    .then(async (response) => `${response.type} ${await response.text()}`, (error) => `error ${error}`);
                const form = 'application/x-www-form-urlencoded';
                const stream = new Promise((resolve) => {
                    const source = new EventSource(`${origin}/console/tasks?live=1`, { withCredentials: true });
                    source.onmessage = (event) => resolve(event.data);
                    source.onerror = () => { source.close(); resolve(''); };
                });
                return Promise.all([
                    attempt(`/tasks/${runs}`, {}),
                    attempt(`/tasks/${runs}`, { mode: 'no-cors' }),
                    attempt(`/tasks/${runs}/cancel`, { method: 'POST', mode: 'no-cors', body: 'a=b', headers: { 'content-type': form } }),
                    stream,
                ]);
            }, [origin, runs]);
            server.close();
            check(!results.some((text) => text.includes('deploy') || text.includes(runs)), `${host} reads ${results}`);
            check((await client.get(runs)).status === 'working', `${host} cancels`);
        }
    }],
    ['the form token of another session', async (tools) => {
        const { world, client, origin, runs } = await scene();
        const [ann, ben] = [await tools.signedIn(world, {}, 'ann'), await tools.signedIn(world, {}, 'ben')];
        await ben.goto(`${origin}/console/tools/deploy`);
        const token = await ben.locator('input[name=form_token]').first().inputValue();
        const { name, value } = await cookieOf(ann);
        for (const body of [`form_token=${encodeURIComponent(token)}`, 'form_token=', '']) {
            const headers = { cookie: `${name}=${value}`, 'sec-fetch-site': 'same-origin', 'content-type': 'application/x-www-form-urlencoded' };
            const { status } = await raw(origin, `/console/tasks/${runs}/cancel`, headers, { method: 'POST', body });
            check(status === 403, `${body}: ${status}`);
        }
        check((await client.get(runs)).status === 'working', 'the task still runs');
    }],
    ['a GET changes nothing', async (tools) => {
        const { client, origin, runs } = await scene();
        const page = await shows(tools, '');
        for (const path of [`tasks/${runs}/cancel`, `tasks/${runs}/answer?action=accept`, 'tools/deploy/start?revision=x', 'logout', 'seen']) {
            const response = await page.request.get(`${origin}/console/${path}`);
            check(response.status() === 404, `${path}: ${response.status()}`);
        }
        check((await client.get(runs)).status === 'working', 'the task still runs');
        check((await page.goto(`${origin}/console/tasks`)).url().endsWith('/tasks'), 'still signed in');
    }],
    ['a frame around the console', async (tools) => {
        const { world, origin } = await scene();
        for (const host of ['localhost', '127.0.0.1']) {
            const page = await tools.signedIn(world, {}, 'ann');
            const server = await foreign(page, host, `<iframe src="${origin}/console/tasks"></iframe>`);
            const frame = await until('the frame has loaded', () => page.frames()[1]);
            await until('the frame is refused', () => frame.url().startsWith('chrome-error:'));
            server.close();
        }
    }],
    ['a redirect to another site after the sign-in', async (tools) => {
        const { world, origin } = await scene();
        for (const next of ['https://evil.example/', '//evil.example', '/\\evil.example', 'javascript:alert(1)', '/console/../../evil', '/console/\r\nx: y']) {
            const page = await tools.page();
            await page.goto(`${origin}/console/login?next=${encodeURIComponent(next)}`);
            await page.getByLabel('API key').fill(world.key('ben'));
            await page.getByRole('button', { name: /^Sign in/ }).click();
            await page.waitForURL((url) => !url.pathname.includes('/login'));
            check(page.url().startsWith(`${origin}/console`), `${next} leads to ${page.url()}`);
        }
    }],
    ['forged, cut and doubled cookies', async (tools) => {
        const { origin, runs } = await scene();
        const { name, value } = await cookieOf(await shows(tools, ''));
        const flipped = value.slice(0, 40) + (value[40] === 'A' ? 'B' : 'A') + value.slice(41);
        const read = (cookie) => raw(origin, `/console/tasks/${runs}`, { cookie });
        check((await read(`${name}=${value}`)).status === 200, 'the real one works');
        for (const cookie of [
            `${name}=${flipped}`, `${name}=${value.slice(0, -2)}`, `${name}=${value}A`, `${name}=`, `${name}=ann`, `taskbridge=${value}`,
            `${name}=${value}; ${name}=${value}`, `__Host-taskbridge=${value}`, `${name}=${'A'.repeat(7_000)}`,
        ]) {
            check(isSignIn(await read(cookie)), `${cookie.slice(0, 60)} is accepted`);
        }
    }],
    ['a cookie after the sign-out', async (tools) => {
        const { world, origin, runs } = await scene();
        const page = await tools.signedIn(world, {}, 'ben');
        const { name, value } = await cookieOf(page);
        await page.locator('summary').click();
        await page.getByRole('button', { name: 'Sign out everywhere' }).click();
        await page.waitForURL('**/login*');
        check(isSignIn(await raw(origin, `/console/tasks/${runs}`, { cookie: `${name}=${value}` })), 'it is dead');
    }],
    ['the back button after the sign-out', async (tools) => {
        const { world, origin, ended } = await scene();
        const page = await tools.signedIn(world, {}, 'ann');
        await page.goto(`${origin}/console/tasks/${ended}`);
        await page.locator('summary').click();
        await page.getByRole('button', { name: 'Sign out', exact: true }).click();
        await page.waitForURL('**/login*');
        await page.goBack();
        await page.getByLabel('API key').waitFor();
        check(!(await page.textContent('body')).includes(ended.slice(0, 8)), 'nothing of the task is left');
    }],
    ['the cookie cannot be read by script and is strict', async (tools) => {
        const page = await shows(tools, '');
        const cookie = await cookieOf(page);
        check(cookie.httpOnly && cookie.sameSite === 'Strict', JSON.stringify(cookie));
        check(await page.evaluate(() => document.cookie) === '', 'scripts see it');
    }],
    ['the cookie at the protocol, and a key at the console', async (tools) => {
        const { world, origin } = await scene();
        const { name, value } = await cookieOf(await shows(tools, ''));
        const headers = { cookie: `${name}=${value}`, 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
        const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} });
        const mcp = await raw(origin, '/mcp', headers, { method: 'POST', body });
        check(mcp.status === 401, `the endpoint takes a cookie: ${mcp.status}`);
        const bearer = await raw(origin, '/console/tasks', { authorization: `Bearer ${world.key('ann')}` });
        check(isSignIn(bearer), `the console takes a key: ${bearer.status}`);
    }],
    ['an artifact with script is only saved', async (tools) => {
        const { origin, shell } = await scene();
        const { name, value } = await cookieOf(await shows(tools, ''));
        const { status, headers } = await raw(origin, `/console/tasks/${shell}/artifacts/report.html`, { cookie: `${name}=${value}` });
        check(status === 200 && headers['content-disposition'].startsWith('attachment;'), `${status} ${headers['content-disposition']}`);
        check(headers['content-type'] === 'application/octet-stream', headers['content-type']);
        check(headers['content-security-policy'].includes('sandbox'), headers['content-security-policy']);
    }],
    ['paths out of the artifacts', async (tools) => {
        const { origin, shell } = await scene();
        const { name, value } = await cookieOf(await shows(tools, ''));
        for (const path of ['../../../../etc/passwd', '..%2f..%2f..%2fetc%2fpasswd', '%2fetc%2fpasswd', 'report.html%00', '.']) {
            const { status, text } = await raw(origin, `/console/tasks/${shell}/artifacts/${path}`, { cookie: `${name}=${value}` });
            check(status === 404 && !text.includes('root:'), `${path}: ${status}`);
        }
    }],
    ['another host name', async () => {
        const { origin } = await scene();
        for (const host of ['evil.example', '127.0.0.1.evil.example']) {
            const { status } = await raw(origin, '/console/login', { host });
            check(status === 403, `${host}: ${status}`);
        }
    }],
    ['other methods and too large forms', async (tools) => {
        const { origin } = await scene();
        const page = await shows(tools, '');
        const { name, value } = await cookieOf(page);
        for (const method of ['PUT', 'DELETE', 'PATCH']) {
            check((await raw(origin, '/console/tasks', {}, { method })).status === 405, method);
        }
        const headers = { cookie: `${name}=${value}`, 'sec-fetch-site': 'same-origin', 'content-type': 'application/x-www-form-urlencoded' };
        const large = raw(origin, '/console/seen', headers, { method: 'POST', body: `a=${'x'.repeat(3_000_000)}` });
        const status = await large.then((answer) => answer.status, (error) => error.code);
        check([413, 'ECONNRESET', 'EPIPE'].includes(status), `a form of 3 MB: ${status}`);
    }],
    ['the printed address works once', async (tools) => {
        const world = await World.start();
        try {
            const address = world.signInAddress();
            await tools.signedIn(world);
            const page = await tools.page();
            await page.goto(address);
            await page.getByRole('button', { name: /^Sign in/ }).click();
            await page.getByRole('alert').waitFor();
            check(isSignIn(await raw(world.origin, '/console/tasks', {})), 'nobody is signed in');
            check(world.signInAddress() !== address, 'the next address is another');
        } finally {
            await world.stop();
        }
    }],
    ['guessed keys are limited', async () => {
        const world = await World.start({ keys: true });
        try {
            const headers = { 'sec-fetch-site': 'same-origin', 'content-type': 'application/x-www-form-urlencoded' };
            const guess = (n) => raw(world.origin, '/console/login', headers, { method: 'POST', body: `key=guess-${n}` });
            const answers = [];
            for (let n = 0; n < 40; n += 1) answers.push((await guess(n)).status);
            check(answers.at(0) === 403 && answers.at(-1) === 429, `${answers}`);
        } finally {
            await world.stop();
        }
    }],
    ['the server still answers', async (tools) => {
        const { world, client, runs } = await scene();
        check((await client.get(runs)).status === 'working', 'the task runs');
        await shows(tools, `/tasks/${runs}`);
        await world.stop();
    }],
];
