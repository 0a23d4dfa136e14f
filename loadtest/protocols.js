// The API over its two protocols, with the same calls and the same answers:
// { code: 'OK' or the error's reason, body, text }.
import http from 'k6/http';
import grpc from 'k6/net/grpc';

const json = { 'Content-Type': 'application/json' };
// Refusals are answers here, not failures of the transport.
const answered = http.expectedStatuses(200, 400, 404, 409, 429, 503);

// rest talks to the REST API at base.
export function rest(base) {
  const answer = (r) => {
    const body = r.body ? r.json() : {};
    return { code: r.status === 200 ? 'OK' : reasonOf(body) || `HTTP ${r.status}`, body, text: r.body };
  };
  const params = (name) => ({ headers: json, responseCallback: answered, tags: { name } });
  return {
    select: (req) => answer(http.post(`${base}/v1/select_destinations`, JSON.stringify(req), params('select'))),
    confirm: (c) => answer(http.post(`${base}/v1/claims/${c.consumer_uuid}:confirm`, JSON.stringify({ claim_id: c.claim_id, cell: c.cell }), params('confirm'))),
    release: (c) => answer(http.del(`${base}/v1/claims/${c.consumer_uuid}?claim_id=${c.claim_id}&cell=${c.cell}`, null, params('release'))),
  };
}

// reasonOf reads ErrorInfo's reason from the JSON form of a status.
function reasonOf(body) {
  const info = (body.details || []).find((d) => d.reason);
  return info && info.reason;
}

const client = new grpc.Client();
client.load(['../proto', '../proto/third_party'], 'cellgate/v1/scheduler.proto', 'cellgate/v1/claims.proto');
let connected = false;

// What gRPC codes say where the reasons are not looked at.
const codes = {
  [grpc.StatusOK]: 'OK', [grpc.StatusInvalidArgument]: 'INVALID_REQUEST', [grpc.StatusFailedPrecondition]: 'NO_VALID_HOST',
  [grpc.StatusNotFound]: 'NOT_FOUND', [grpc.StatusAborted]: 'CONTENDED', [grpc.StatusResourceExhausted]: 'OVERLOADED',
  [grpc.StatusUnavailable]: 'CELL_UNAVAILABLE', [grpc.StatusAlreadyExists]: 'ALREADY_EXISTS',
};

// rpc talks to the gRPC API at addr, over one connection a virtual user.
export function rpc(addr) {
  if (!connected) {
    client.connect(addr, { plaintext: true, timeout: '5s' });
    connected = true;
  }
  const call = (method, req) => {
    const r = client.invoke(`cellgate.v1.${method}`, req, { timeout: '10s', tags: { name: method } });
    return { code: codes[r.status] || `gRPC ${r.status}`, body: snake(r.message || {}), text: JSON.stringify(r.error || r.message) };
  };
  return {
    select: (req) => call('Scheduler/SelectDestinations', req),
    confirm: (c) => call('Claims/ConfirmClaim', c),
    release: (c) => call('Claims/ReleaseClaim', c),
  };
}

// snake gives a message's field names as the schema has them; k6 gives them in
// lowerCamelCase.
function snake(v) {
  if (Array.isArray(v)) return v.map(snake);
  if (v === null || typeof v !== 'object') return v;
  const out = {};
  for (const k of Object.keys(v)) out[k.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`)] = snake(v[k]);
  return out;
}
