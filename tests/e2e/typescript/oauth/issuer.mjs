// A real authorization server (npm oidc-provider) on a port of this machine: code flow with PKCE, client credentials,
// registration of clients, resource indicators, signed and opaque tokens, introspection. Users log in by a name alone and
// consent to everything: it is the bridge that is tested. It must not be reachable from elsewhere.
import http from 'node:http';
import Provider from 'oidc-provider';

// Who asks about opaque tokens, and who has tokens of its own.
export const BRIDGE = { id: 'bridge', secret: 'bridge-secret-of-thirty-two-letters' };
export const MACHINE = { id: 'machine', secret: 'machine-secret-of-thirty-two-letters' };

const confidential = ({ id, secret }) => ({
    client_id: id, client_secret: secret, grant_types: ['client_credentials'], redirect_uris: [], response_types: [],
});

// `resources`: by address, the format of its tokens and how long they are good, in seconds.
export async function serve(resources) {
    const server = http.createServer();
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    const url = `http://127.0.0.1:${server.address().port}`;
    const provider = new Provider(url, {
        clients: [confidential(BRIDGE), confidential(MACHINE)],
        scopes: ['openid', 'offline_access', 'run', 'see'],
        findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
        extraTokenClaims: (_, token) => (token.accountId ? { groups: ['release'], name: `user ${token.accountId}` } : {}),
        issueRefreshToken: () => true,
        features: {
            devInteractions: { enabled: false },
            clientCredentials: { enabled: true },
            registration: { enabled: true },
            revocation: { enabled: true },
            introspection: { enabled: true, allowedPolicy: () => true },
            resourceIndicators: {
                enabled: true,
                useGrantedResource: () => true,
                getResourceServerInfo: (_, resource) => {
                    const { format, ttl } = resources.get(resource);
                    return {
                        scope: 'run see', audience: resource, accessTokenTTL: ttl, accessTokenFormat: format,
                        jwt: { sign: { alg: 'RS256' } },
                    };
                },
            },
        },
        interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
        cookies: { keys: ['a key of a test'] },
    });
    // Logs in as whom the request wants (`login_hint`), and consents.
    provider.use(async (context, next) => {
        if (!context.path.startsWith('/interaction/')) return next();
        const { prompt, params, session } = await provider.interactionDetails(context.req, context.res);
        if (prompt.name === 'login') {
            const result = { login: { accountId: params.login_hint ?? 'ann' } };
            return provider.interactionFinished(context.req, context.res, result);
        }
        const grant = new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
        grant.addOIDCScope(['openid', 'offline_access', ...(prompt.details.missingOIDCScope ?? [])].join(' '));
        for (const [resource, scopes] of Object.entries(prompt.details.missingResourceScopes ?? {})) {
            grant.addResourceScope(resource, scopes.join(' '));
        }
        const consent = { grantId: await grant.save() };
        return provider.interactionFinished(context.req, context.res, { consent }, { mergeWithLastSubmission: true });
    });
    server.on('request', provider.callback());
    return { url, close: () => new Promise((done) => { server.close(done); server.closeAllConnections(); }) };
}
