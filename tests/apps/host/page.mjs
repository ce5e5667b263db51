// The page of a chat: it shows the view of each call with `AppRenderer` of @mcp-ui/client, as hosts do. The connection
// to the server and the conversation are in the process of the tests, behind `host`.

import { AppRenderer } from '@mcp-ui/client';
import { createElement as h, StrictMode, useSyncExternalStore } from 'react';
import { createRoot } from 'react-dom/client';

const { sandbox, abilities } = window.settings;
// The same objects at each rendering: the renderer opens a view again if one is another.
const place = { url: new URL(sandbox) };
const hostInfo = { name: 'chat of the tests', version: '1' };
// Replaced by a change alone: each new object is a message to the views.
let { look } = window.settings;
const calls = [];
let version = 0;
const watchers = new Set();
const changed = () => { version += 1; watchers.forEach((watcher) => watcher()); };
const subscribe = (watcher) => { watchers.add(watcher); return () => watchers.delete(watcher); };

// What the tests do to the page: show a call, give its result, change the context of all views.
window.chat = {
    show(call) { calls.push(call); changed(); },
    result(n, result) { calls.find((call) => call.n === n).result = result; changed(); },
    remove(n) { calls.splice(calls.findIndex((call) => call.n === n), 1); changed(); },
    context(changes) { look = { ...look, ...changes }; changed(); },
};

function Card({ call }) {
    const heard = (kind) => async (params) => {
        const answer = await window.host(call.n, kind, params);
        if (answer?.error) throw new Error(answer.error);
        return answer ?? {};
    };
    return h('section', { className: `card ${look.displayMode}`, 'data-call': call.n },
        h('p', null, `${call.tool}(${JSON.stringify(call.input).slice(0, 80)})`),
        h(AppRenderer, {
            toolName: call.tool,
            toolResourceUri: call.view,
            toolInput: call.input,
            toolResult: call.result,
            sandbox: place,
            hostInfo,
            hostContext: look,
            hostCapabilities: abilities,
            onReadResource: heard('resources/read'),
            onCallTool: heard('tools/call'),
            onOpenLink: heard('ui/open-link'),
            onMessage: heard('ui/message'),
            onLoggingMessage: heard('log'),
            onSizeChanged: heard('size'),
            onError: (error) => window.host(call.n, 'error', String(error)),
            onFallbackRequest: ({ method, params }) => heard(method)(params),
        }));
}

function Chat() {
    useSyncExternalStore(subscribe, () => version);
    return h('main', null, h('h1', null, 'Chat'), ...calls.map((call) => h(Card, { key: call.n, call: { ...call } })));
}

// The renderer answers a request for another display mode by itself, with the present one. The mode follows once that
// answer is sent.
window.addEventListener('message', ({ data }) => {
    if (data?.method !== 'ui/request-display-mode') return;
    window.host(0, data.method, data.params);
    setTimeout(() => window.chat.context({ displayMode: data.params.mode }));
});

createRoot(document.getElementById('root')).render(h(Chat));
