// A conversation in a host of MCP Apps: an MCP client of one generation in this process, and a page with the views.
// It keeps what a model would see, and what views ask the host for.

import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';

import { until } from '../console/world.mjs';

export const PACKAGES = process.env.APPS_PACKAGES ?? path.resolve('target/apps');
const require = createRequire(path.join(PACKAGES, 'package.json'));
const { Client, StreamableHTTPClientTransport } = require('@modelcontextprotocol/client');

export const UI = { extensions: { 'io.modelcontextprotocol/ui': { mimeTypes: ['text/html;profile=mcp-app'] } } };
export const VIEW = 'ui://taskbridge/task';

// The policy of the specification for a view that declares nothing. The proxy's own page has the same.
const POLICY = "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; media-src 'self' data:; connect-src 'none'; frame-src 'self'; base-uri 'self'; object-src 'none'";

const pages = {
    '/': ['text/html', async () => `<!doctype html><html lang="en"><meta charset="utf-8"><title>Chat</title><link rel="icon" href="data:,">
<style>body { font: 15px system-ui; margin: 0; background: Canvas; color: CanvasText; } main { max-width: 46rem; margin: auto; padding: 8px; }
h1 { font-size: 16px; } .card > p { color: GrayText; margin: 12px 0 4px; } iframe { width: 100% !important; border: 1px solid color-mix(in srgb, GrayText 40%, transparent); border-radius: 10px; }
.fullscreen iframe { position: fixed; inset: 0; height: 100% !important; z-index: 1; border-radius: 0; }</style>
<div id="root"></div><script>window.settings = SETTINGS;</script><script src="/page.js"></script>`],
    '/page.js': ['text/javascript', () => readFile(path.join(PACKAGES, 'page.js'))],
    '/sandbox.html': ['text/html', () => readFile(new URL('host/sandbox.html', import.meta.url))],
};

// Serves the page and, at the other name of this machine and thus another origin, the sandbox.
export async function serveHost() {
    const server = createServer(async ({ url }, response) => {
        const [type, body] = pages[new URL(url, 'http://x').pathname] ?? [];
        if (!type) { response.writeHead(404).end(); return; }
        response.setHeader('content-type', `${type}; charset=utf-8`);
        if (url.startsWith('/sandbox.html')) response.setHeader('content-security-policy', POLICY);
        const { port } = server.address();
        const settings = { sandbox: `http://localhost:${port}/sandbox.html`, look: server.look, abilities: server.abilities };
        response.end(String(await body()).replace('SETTINGS', () => JSON.stringify(settings)));
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    server.look = { theme: 'light', displayMode: 'inline', availableDisplayModes: ['inline', 'fullscreen'], locale: 'en', timeZone: 'UTC' };
    server.abilities = { openLinks: {}, serverTools: {}, serverResources: {}, logging: {} };
    return server;
}

export class Chat {
    // Connects to the server and opens the page. `modern` speaks 2026-07-28, else 2025-11-25.
    static async open(tools, world, { name, modern = false, capabilities = UI, look = {}, abilities = {}, browser = {} } = {}) {
        const chat = new Chat();
        Object.assign(chat, { world, calls: [], heard: [], requests: [], errors: [] });
        const headers = name ? { authorization: `Bearer ${world.key(name)}` } : {};
        chat.transport = new StreamableHTTPClientTransport(new URL(`${world.origin}/mcp`), { requestInit: { headers } });
        chat.client = new Client({ name: 'chat', version: '1' }, {
            capabilities, versionNegotiation: { mode: modern ? 'auto' : 'legacy' },
        });
        await chat.client.connect(chat.transport);
        chat.server = await serveHost();
        Object.assign(chat.server.look, look);
        Object.assign(chat.server.abilities, abilities);
        chat.page = await tools.page(browser);
        chat.page.on('request', (request) => chat.requests.push(request.url()));
        await chat.page.exposeFunction('host', (n, kind, params) => chat.host(n, kind, params));
        await chat.page.goto(`http://127.0.0.1:${chat.server.address().port}/`);
        tools.chats.add(chat);
        return chat;
    }

    async close() {
        await this.page.context().close();
        this.server.closeAllConnections();
        this.server.close();
        await this.client.close().catch(() => {});
    }

    // What a host answers a view.
    async host(n, kind, params) {
        this.heard.push({ n, kind, params });
        try {
            switch (kind) {
                case 'resources/read': return await this.client.readResource(params);
                case 'tools/call': return await this.tool(params, 'app');
                case 'ui/request-display-mode': return { mode: params.mode };
                case 'error': this.errors.push(params); return {};
                default: return {};
            }
        } catch (error) {
            return { error: error.message };
        }
    }

    async tool(params, by) {
        this.tools ??= (await this.client.listTools()).tools;
        const visibility = this.tools.find(({ name }) => name === params.name)?._meta?.ui?.visibility ?? ['model', 'app'];
        if (!visibility.includes(by)) throw new Error(`${params.name} is not for the ${by}`);
        return this.client.callTool(params);
    }

    // A call of the model: the view is shown at once, and gets the result as soon as it is there.
    async call(tool, input = {}) {
        const n = this.calls.length;
        const params = { name: tool, arguments: input };
        const result = this.tool(params, 'model');
        this.calls.push({ n, tool, input, result });
        const view = this.tools?.find(({ name }) => name === tool)?._meta?.ui?.resourceUri ?? VIEW;
        await this.page.evaluate((call) => window.chat.show(call), { n, tool, input, view });
        const settled = await result;
        await this.page.evaluate(([n, settled]) => window.chat.result(n, settled), [n, settled]);
        this.calls[n].settled = settled;
        return this.shown(n);
    }

    // A conversation that is opened again: the view gets the result that the conversation kept.
    async reopen(tool, result) {
        const n = this.calls.length;
        this.calls.push({ n, tool, input: {}, settled: result });
        await this.page.evaluate((call) => window.chat.show(call), { n, tool, input: {}, view: VIEW, result });
        return this.shown(n);
    }

    // The frame of the view of a call, which is scrolled to: a view that is not seen does not poll.
    async shown(n) {
        await this.page.locator(`[data-call="${n}"]`).scrollIntoViewIfNeeded();
        return this.frame(n);
    }

    // The frame of the view of a call.
    frame(n) {
        return this.page.locator(`[data-call="${n}"]`).frameLocator('iframe').frameLocator('iframe');
    }

    task(n) {
        return this.calls[n].settled._meta['io.taskbridge/task'];
    }

    // Waits for a request of a view to the host.
    until(kind, test = () => true) {
        return until(`a view asks for ${kind}`, () => this.heard.find((each) => each.kind === kind && test(each.params)));
    }

    looks(n) {
        return this.heard.filter((each) => each.n === n && each.params?.name === 'task_view').length;
    }
}

// Waits until a view shows this state.
export const state = (frame, text) => frame.locator('#state', { hasText: text }).waitFor();
