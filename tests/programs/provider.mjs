// `node provider.mjs PORT`: an OpenID Provider for the tests, made with `oidc-provider`, on 127.0.0.1.
//
// Above: tests/provider. It has a form to sign in (any password), RS256 and ES256 keys, refresh tokens, JWT access
// tokens for a `resource`, registration, revocation and logout. Its consent page is skipped: a client may have what it
// asks for. It exists for one run; tests change it by these requests, all with JSON:
//
//   PUT  /test/clients/ID   redirect_uris and whatever else RFC 7591 has for a client
//   PUT  /test/people/SUB   their claims
//   POST /test/rotate       new keys; the old ones are gone, also from the JWKS
//   GET  /test/seen         how often each path was asked for
//   GET  /test/secrets      the codes and tokens that were given out
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';

// Its notices are about production.
console.info = () => {};
console.warn = () => {};
const { Provider } = await import('oidc-provider');

const port = Number(process.argv[2]);
const issuer = `http://127.0.0.1:${port}`;
const people = new Map();
const seen = new Map();
const rows = new Map();
const given = new Set();

class Rows {
  constructor(model) {
    this.model = model;
  }

  async upsert(id, payload) {
    rows.set(`${this.model} ${id}`, payload);
    if (['AuthorizationCode', 'AccessToken', 'RefreshToken'].includes(this.model)) given.add(id);
  }

  async find(id) {
    return rows.get(`${this.model} ${id}`);
  }

  async findByUid(uid) {
    return [...rows].find(([key, row]) => key.startsWith(`${this.model} `) && row.uid === uid)?.[1];
  }

  async consume(id) {
    rows.get(`${this.model} ${id}`).consumed = Math.floor(Date.now() / 1000);
  }

  async destroy(id) {
    rows.delete(`${this.model} ${id}`);
  }

  async revokeByGrantId(grantId) {
    for (const [key, row] of rows) if (row.grantId === grantId) rows.delete(key);
  }
}

const newKeys = () => [
  { ...generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' }), kid: randomUUID(), alg: 'RS256' },
  { ...generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ format: 'jwk' }), kid: randomUUID(), alg: 'ES256' },
].map((key) => ({ ...key, use: 'sig' }));

const claimsOf = (sub) => ({ sub, ...people.get(sub) });

async function grantAll(ctx) {
  const { client, session, provider, params } = ctx.oidc;
  const grant = new provider.Grant({ clientId: client.clientId, accountId: session.accountId });
  grant.addOIDCScope(params.scope ?? 'openid');
  for (const resource of [params.resource ?? []].flat()) grant.addResourceScope(resource, params.scope ?? '');
  await grant.save();
  return grant;
}

function listener() {
  const provider = new Provider(issuer, {
    adapter: Rows,
    jwks: { keys: newKeys() },
    cookies: { keys: ['a key of this run'] },
    claims: {
      openid: ['sub'],
      profile: ['name', 'preferred_username', 'groups', 'realm_access'],
      email: ['email', 'email_verified'],
    },
    scopes: ['openid', 'profile', 'email', 'offline_access', 'read', 'call', 'answer'],
    conformIdTokenClaims: process.argv[3] === 'userinfo',
    findAccount: (ctx, sub) => people.has(sub) && { accountId: sub, claims: () => claimsOf(sub) },
    loadExistingGrant: grantAll,
    issueRefreshToken: (ctx, client) => client.grantTypeAllowed('refresh_token'),
    pkce: { required: () => true },
    extraTokenClaims: (ctx, token) => (people.has(token.accountId) ? people.get(token.accountId) : undefined),
    features: {
      clientCredentials: { enabled: true },
      registration: { enabled: true },
      revocation: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (ctx, resource) => ({
          scope: 'read call answer',
          audience: resource,
          accessTokenFormat: 'jwt',
          accessTokenTTL: 3600,
          jwt: { sign: { alg: 'RS256' } },
        }),
      },
    },
  });
  return provider.callback();
}

let serve = listener();

async function bodyOf(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return parts.length ? JSON.parse(Buffer.concat(parts)) : {};
}

async function change(request, path) {
  const [, , what, id] = path.split('/').map(decodeURIComponent);
  if (what === 'seen') return Object.fromEntries(seen);
  if (what === 'secrets') return [...given];
  const body = await bodyOf(request);
  if (what === 'people') people.set(id, body);
  else if (what === 'clients') rows.set(`Client ${id}`, { client_id: id, ...body });
  else if (what === 'rotate') serve = listener();
  return {};
}

const server = createServer(async (request, response) => {
  const path = request.url.split('?')[0];
  if (!path.startsWith('/test/')) {
    seen.set(path, (seen.get(path) ?? 0) + 1);
    serve(request, response);
    return;
  }
  const answer = await change(request, path);
  response.setHeader('content-type', 'application/json');
  response.end(JSON.stringify(answer));
});
server.listen(port, '127.0.0.1');
