// MCP clients that find out by themselves where to get a token, get it from a real authorization server, and use the
// bridge with it: what a user does who adds the bridge's address to a client. And tokens of that server that are not good
// here. Each scenario says `ok` or throws.
//
//     node drive.mjs TASKBRIDGE FOLDER
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import net from 'node:net';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import * as sdk2 from '@modelcontextprotocol/client';
import { ClientCredentialsProvider } from '@modelcontextprotocol/sdk/client/auth-extensions.js';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import * as issuer from './issuer.mjs';

const SDKS = { 'SDK 1': { Client, StreamableHTTPClientTransport }, 'SDK 2': sdk2 };
const REDIRECT = 'http://127.0.0.1:1/callback';
const [program, folder] = process.argv.slice(2);

const freePort = () => new Promise((done) => {
    const probe = net.createServer().listen(0, '127.0.0.1', () => {
        const { port } = probe.address();
        probe.close(() => done(port));
    });
});

// A bridge for tokens of this server.
async function bridge(name, port, { resource, more = '' }, url) {
    const dir = path.join(folder, name);
    await mkdir(dir, { recursive: true });
    const config = path.join(dir, 'taskbridge.toml');
    await writeFile(config, `
[server]
listen = "127.0.0.1:${port}"
[store]
path = "tasks.db"
[auth]
mode = "oauth"
resource = "${resource}"
required_scopes = ["run"]
leeway = "0s"
[[auth.issuers]]
issuer = "${url}"
${more}
[backends.here]
kind = "local"
[tools.hello]
backend = "here"
target.command = ["echo", "hello"]
[tools.slow]
backend = "here"
target.command = ["sh", "-c", "sleep 1; echo done"]
`);
    const child = spawn(program, ['serve', '--config', config], { stdio: ['ignore', 'pipe', 'pipe'] });
    let said = '';
    child.stderr.on('data', (data) => { said += data; });
    await new Promise((done, failed) => {
        child.stdout.on('data', (data) => String(data).includes('/mcp') && done());
        child.on('exit', (code) => failed(new Error(`the bridge ended with ${code}: ${said}`)));
    });
    const stop = () => new Promise((done) => { child.removeAllListeners('exit'); child.on('exit', done); child.kill('SIGTERM'); });
    return { url: `http://127.0.0.1:${port}/mcp`, log: () => said, stop };
}

// A user with a browser: follows redirects with cookies until the client's own address, and gives the code.
async function browse(start) {
    const jar = new Map();
    for (let at = new URL(start), n = 0; n < 12; n++) {
        const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ');
        const response = await fetch(at, { redirect: 'manual', headers: { cookie } });
        for (const line of response.headers.getSetCookie()) {
            const [, name, value] = /^([^=]+)=([^;]*)/.exec(line);
            value ? jar.set(name, value) : jar.delete(name);
        }
        const location = response.headers.get('location');
        assert.ok(location, `${at} answers ${response.status}: ${await response.text()}`);
        at = new URL(location, at);
        if (at.href.startsWith(REDIRECT)) return at.searchParams;
    }
    throw new Error('the user is sent around in circles');
}

// What a client keeps of a user's authorization.
class Person {
    constructor(name) { this.name = name; }
    get redirectUrl() { return REDIRECT; }
    get clientMetadata() {
        return {
            client_name: 'a client', redirect_uris: [REDIRECT], grant_types: ['authorization_code', 'refresh_token'],
            response_types: ['code'], token_endpoint_auth_method: 'none', application_type: 'native',
        };
    }
    clientInformation() { return this.client; }
    saveClientInformation(client) { this.client = client; }
    tokens() { return this.kept; }
    saveTokens(tokens) { this.kept = tokens; this.saved = (this.saved ?? 0) + 1; }
    codeVerifier() { return this.verifier; }
    saveCodeVerifier(verifier) { this.verifier = verifier; }
    async redirectToAuthorization(url) {
        this.asked = url;
        url.searchParams.set('login_hint', this.name);
        this.answer = await browse(url);
    }
}

async function connect({ Client, StreamableHTTPClientTransport }, url, person) {
    const transport = () => new StreamableHTTPClientTransport(new URL(url), { authProvider: person });
    const client = () => new Client({ name: 'oauth-test', version: '1.0.0' });
    let [first, way] = [client(), transport()];
    try {
        await first.connect(way);
        return first;
    } catch (error) {
        assert.match(`${error.constructor.name} ${error}`, /unauthori[sz]ed/i);
    }
    const { answer } = person;
    await way.finishAuth(answer.get('code'), answer.get('iss') ?? undefined);
    [first, way] = [client(), transport()];
    await first.connect(way);
    return first;
}

const said = (result) => result.content.map((part) => part.text).join('');
const post = (url, token, body = { jsonrpc: '2.0', id: 1, method: 'ping' }) => fetch(url, {
    method: 'POST', body: JSON.stringify(body),
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
});

async function main() {
    const ports = [await freePort(), await freePort(), await freePort()];
    const [signed, opaque, short] = ports.map((port) => `http://127.0.0.1:${port}/mcp`);
    const server = await issuer.serve(new Map([
        [signed, { format: 'jwt', ttl: 3600 }], [opaque, { format: 'opaque', ttl: 3600 }], [short, { format: 'jwt', ttl: 4 }],
    ]));
    const introspection = `[auth.issuers.introspection]
endpoint = "${server.url}/token/introspection"
client_id = "${issuer.BRIDGE.id}"
client_secret = "${issuer.BRIDGE.secret}"
cache_for = "1s"`;
    const bridges = await Promise.all([
        bridge('signed', ports[0], { resource: signed }, server.url),
        bridge('opaque', ports[1], { resource: opaque, more: introspection }, server.url),
        bridge('short', ports[2], { resource: short }, server.url),
    ]);
    const granted = async (form, { id, secret } = issuer.MACHINE) => (await fetch(`${server.url}/token`, {
        method: 'POST', body: new URLSearchParams(form),
        headers: { authorization: `Basic ${btoa(`${id}:${secret}`)}` },
    })).json();
    const machine = (resource, scope = 'run') => granted({ grant_type: 'client_credentials', resource, scope });

    const scenarios = {};
    for (const [name, sdk] of Object.entries(SDKS)) {
        scenarios[`${name}: from a 401 to a tool, by registration, code and PKCE`] = async () => {
            const person = new Person('ann');
            const client = await connect(sdk, signed, person);
            assert.equal(person.asked.searchParams.get('resource'), signed);
            assert.equal(person.asked.searchParams.get('scope').split(' ')[0], 'run', 'the scope of the challenge');
            assert.equal(person.asked.searchParams.get('code_challenge_method'), 'S256');
            const names = (await client.listTools()).tools.map((tool) => tool.name);
            assert.deepEqual(names.filter((name) => !name.startsWith('task_')), ['hello', 'slow']);
            assert.equal(said(await client.callTool({ name: 'hello', arguments: {} })), 'hello\n');
            await client.close();
        };
        scenarios[`${name}: the same by opaque tokens`] = async () => {
            const client = await connect(sdk, opaque, new Person('ann'));
            assert.equal(said(await client.callTool({ name: 'slow', arguments: {} })), 'done\n');
            await client.close();
        };
        scenarios[`${name}: a token that ends is renewed on the way`] = async () => {
            const person = new Person('ann');
            const client = await connect(sdk, short, person);
            assert.equal(person.saved, 1);
            await pause(4500);
            assert.equal(said(await client.callTool({ name: 'hello', arguments: {} })), 'hello\n');
            assert.ok(person.saved >= 2, 'it was renewed');
            await client.close();
        };
    }
    scenarios['SDK 1: a machine, by client credentials'] = async () => {
        const authProvider = new ClientCredentialsProvider({
            clientId: issuer.MACHINE.id, clientSecret: issuer.MACHINE.secret, scope: 'run', expectedIssuer: server.url,
        });
        const client = new Client({ name: 'machine', version: '1.0.0' });
        await client.connect(new StreamableHTTPClientTransport(new URL(signed), { authProvider }));
        assert.equal(said(await client.callTool({ name: 'hello', arguments: {} })), 'hello\n');
        await client.close();
    };
    scenarios['two users do not see each other'] = async () => {
        const [ann, bob] = [await connect(SDKS['SDK 1'], signed, new Person('ann')), await connect(SDKS['SDK 1'], signed, new Person('bob'))];
        const stolen = await fetch(signed, {
            method: 'POST', body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' }),
            headers: {
                authorization: `Bearer ${bob.transport._authProvider.kept.access_token}`, 'mcp-session-id': ann.transport.sessionId,
                'content-type': 'application/json', accept: 'application/json, text/event-stream',
            },
        });
        assert.equal(stolen.status, 404, 'a stolen session is of no use');
        await Promise.all([ann.close(), bob.close()]);
    };
    scenarios['a token for another server is refused'] = async () => {
        const { access_token } = await machine(short);
        const response = await post(signed, access_token);
        assert.equal(response.status, 401);
        assert.match(response.headers.get('www-authenticate'), /invalid_token.*another server/);
    };
    scenarios['an opaque token is refused where none are asked about'] = async () => {
        const { access_token } = await machine(opaque);
        assert.equal((await post(signed, access_token)).status, 401);
    };
    scenarios['an ID token is refused'] = async () => {
        const { clientMetadata } = new Person('ann');
        const registered = await (await fetch(`${server.url}/reg`, {
            method: 'POST', headers: { 'content-type': 'application/json' },
            body: JSON.stringify({ ...clientMetadata, scope: 'openid run' }),
        })).json();
        const verifier = randomBytes(32).toString('base64url');
        const code = (await browse(`${server.url}/auth?${new URLSearchParams({
            client_id: registered.client_id, response_type: 'code', redirect_uri: REDIRECT, scope: 'openid run', resource: signed,
            code_challenge: createHash('sha256').update(verifier).digest('base64url'), code_challenge_method: 'S256',
        })}`)).get('code');
        const tokens = await (await fetch(`${server.url}/token`, {
            method: 'POST', body: new URLSearchParams({
                grant_type: 'authorization_code', code, redirect_uri: REDIRECT, client_id: registered.client_id,
                code_verifier: verifier, resource: signed,
            }),
        })).json();
        assert.ok(tokens.id_token, JSON.stringify(tokens));
        assert.equal((await post(signed, tokens.id_token)).status, 401);
        assert.equal((await post(signed, tokens.access_token)).status, 400, 'good, but in no session');
    };
    scenarios['a token without the scope is told which one it needs'] = async () => {
        const { access_token } = await machine(signed, 'see');
        const response = await post(signed, access_token);
        assert.equal(response.status, 403);
        assert.match(response.headers.get('www-authenticate'), /insufficient_scope.*scope="run"/);
    };
    scenarios['a token that was revoked is refused soon'] = async () => {
        const person = new Person('ann');
        await (await connect(SDKS['SDK 1'], opaque, person)).close();
        const token = person.kept.access_token;
        assert.equal((await post(opaque, token)).status, 400, 'good, but in no session');
        const revoked = await fetch(`${server.url}/token/revocation`, {
            method: 'POST', body: new URLSearchParams({ token, client_id: person.client.client_id }),
        });
        assert.equal(revoked.status, 200);
        await pause(1200);
        assert.equal((await post(opaque, token)).status, 401);
    };

    let failed = 0;
    for (const [name, scenario] of Object.entries(scenarios)) {
        try {
            await scenario();
            console.log(`ok      ${name}`);
        } catch (error) {
            failed += 1;
            console.log(`FAILED  ${name}\n${error.stack}`);
        }
    }
    if (failed) bridges.forEach((one) => console.log(one.log()));
    await Promise.all(bridges.map((one) => one.stop()));
    await server.close();
    console.log(`${Object.keys(scenarios).length - failed} of ${Object.keys(scenarios).length} are right`);
    process.exit(failed ? 1 : 0);
}

await main();
