// A provider that others wrote, for `make test-services`. Prints nothing; writes where it is to the file that is named.
// POST /test/rotate replaces its signing key, POST /test/away and /test/back make it answer 503 or not.
import { generateKeyPairSync } from 'node:crypto';
import { renameSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import Provider from 'oidc-provider';

const AUDIENCE = 'https://gpu.example/api';
const [place] = process.argv.slice(2);
const state = { turn: 0, away: false, handler: null };

function key() {
  state.turn += 1;
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  return { ...privateKey.export({ format: 'jwk' }), kid: `key-${state.turn}`, use: 'sig', alg: 'RS256' };
}

function make(issuer) {
  const provider = new Provider(issuer, {
    jwks: { keys: [key()] },
    cookies: { keys: ['a key for cookies of tests'] },
    clients: [
      {
        client_id: 'console',
        client_secret: 'a secret: of the console',
        application_type: 'native',
        redirect_uris: ['http://127.0.0.1/auth/callback'],
      },
      {
        client_id: 'cli',
        application_type: 'native',
        token_endpoint_auth_method: 'none',
        redirect_uris: ['http://127.0.0.1/callback'],
        grant_types: ['authorization_code', 'urn:ietf:params:oauth:grant-type:device_code'],
      },
    ],
    pkce: { required: () => true },
    conformIdTokenClaims: false,
    claims: { openid: ['sub'], profile: ['preferred_username', 'groups'], email: ['email'] },
    extraTokenClaims: (_ctx, token) => ({ groups: groups(token.accountId) }),
    findAccount: (_ctx, id) => ({
      accountId: id,
      claims: () => ({ sub: id, preferred_username: id, email: `${id}@example.test`, groups: groups(id) }),
    }),
    features: {
      devInteractions: { enabled: true },
      deviceFlow: { enabled: true },
      resourceIndicators: {
        enabled: true,
        useGrantedResource: () => true,
        getResourceServerInfo: () => ({ scope: '', audience: AUDIENCE, accessTokenFormat: 'jwt' }),
      },
    },
  });
  state.handler = provider.callback();
}

const groups = (id) => (id === 'ada' ? ['gpu-admins'] : []);

const server = createServer((request, response) => {
  const orders = {
    '/test/rotate': () => make(issuer),
    '/test/away': () => { state.away = true; },
    '/test/back': () => { state.away = false; },
  };
  const order = request.method === 'POST' && orders[request.url];
  if (order) {
    order();
    response.writeHead(204).end();
  } else if (state.away) {
    response.writeHead(503).end();
  } else {
    state.handler(request, response);
  }
});
let issuer;
server.listen(0, '127.0.0.1', () => {
  issuer = `http://127.0.0.1:${server.address().port}`;
  make(issuer);
  writeFileSync(`${place}.new`, JSON.stringify({ issuer, audience: AUDIENCE }));
  renameSync(`${place}.new`, place);
});
