// The load of `make load`: a smoke of every request shape, then a steady rate
// that does not wait for the answers, through REST and gRPC at once.
//
// Environment: REST (http://host:port), GRPC (host:port), CELLS (names, by
// commas), SCENARIO (smoke, steady, all), RATE (requests a second and protocol),
// STEADY (seconds), OUT (directory of the report), STRICT_P95 (overrides the
// limit, to see a threshold fail).
import { check } from 'k6';
import exec from 'k6/execution';
import { Counter, Rate, Trend } from 'k6/metrics';
import { rest, rpc } from './protocols.js';
import { requestOf, shapeFor, shapes } from './requests.js';
import { htmlOf, textOf } from './report.js';

const env = (name, otherwise) => __ENV[name] || otherwise;
const cells = env('CELLS', 'cell1,cell2,cell3').split(',');
const scenario = env('SCENARIO', 'all');
const perProtocol = Number(env('RATE', '60'));
const smokeSeconds = 10;
const steadySeconds = Number(env('STEADY', '30'));
const protocols = ['rest', 'grpc'];
const lease = 5;
const bucketSeconds = 2;

// Latency of select_destinations alone, by protocol (via), shape, cell of the
// first selection, and time.
const selectMs = new Trend('select_ms', true);
const confirmMs = new Trend('confirm_ms', true);
const releaseMs = new Trend('release_ms', true);
// Answers that are what was expected of the request.
const expected = new Rate('expected');
const partial = new Rate('partial');
const exact = new Rate('exact');
// Selections; cell_share is, by cell, how many of all went there.
const selections = new Counter('selections');
const cellShare = new Rate('cell_share');
const refused = new Counter('refused');
// What went wrong, by kind.
const wrong = new Counter('wrong');

const phases = scenario === 'all' ? ['smoke', 'steady'] : [scenario];
const steadyFrom = phases.length > 1 ? smokeSeconds : 0;
const totalSeconds = (phases.includes('smoke') ? smokeSeconds : 0) + (phases.includes('steady') ? steadySeconds : 0);

function scenarios() {
  const all = {};
  for (const via of protocols) {
    if (phases.includes('smoke')) {
      all[`smoke_${via}`] = { executor: 'constant-vus', vus: 1, duration: `${smokeSeconds}s`, exec: 'smoke', env: { VIA: via }, tags: { phase: 'smoke' }, gracefulStop: '10s' };
    }
    if (phases.includes('steady')) {
      all[`steady_${via}`] = {
        executor: 'constant-arrival-rate', rate: perProtocol, timeUnit: '1s', duration: `${steadySeconds}s`, startTime: `${steadyFrom}s`,
        preAllocatedVUs: 15, maxVUs: 60, exec: 'steady', env: { VIA: via }, tags: { phase: 'steady' }, gracefulStop: '10s',
      };
    }
  }
  return all;
}

// Thresholds are the promise. The numbers hold on two shared cores with a wide
// margin: docs/how-to/load.md says what was measured.
function thresholds() {
  const p95 = env('STRICT_P95', '150');
  const t = {
    checks: ['rate==1'],
    expected: ['rate>=0.999'],
    partial: ['rate==0'],
    exact: ['rate>=0.99'],
    dropped_iterations: ['count<=10'],
  };
  const shown = ['max>=0']; // not a promise: k6 keeps a tagged metric only for a threshold
  for (const via of protocols) {
    t[`expected{via:${via}}`] = ['rate>=0.999'];
    t[`select_ms{via:${via}}`] = [`p(95)<${p95}`, 'p(99)<400'];
    t[`confirm_ms{via:${via}}`] = ['p(99)<400'];
    t[`release_ms{via:${via}}`] = ['p(99)<400'];
    for (let at = 0; at < totalSeconds; at += bucketSeconds) t[`select_ms{via:${via},at:${at}}`] = shown;
  }
  for (const c of cells) {
    // Where a few requests go is the weighers' business: no promise of a smoke.
    t[`cell_share{cell:${c}}`] = phases.includes('steady') ? [`rate>=${(0.4 / cells.length).toFixed(3)}`] : ['rate>=0'];
    t[`selections{cell:${c}}`] = ['count>0'];
    t[`select_ms{cell:${c}}`] = ['p(99)<400'];
  }
  for (const s of shapes) t[`select_ms{shape:${s.name}}`] = shown;
  return t;
}

export const options = {
  scenarios: scenarios(),
  thresholds: thresholds(),
  summaryTrendStats: ['count', 'min', 'avg', 'med', 'p(90)', 'p(95)', 'p(99)', 'max'],
  noConnectionReuse: false,
  discardResponseBodies: false,
};

const api = () => (__ENV.VIA === 'rest' ? rest(env('REST', 'http://127.0.0.1:8080')) : rpc(env('GRPC', '127.0.0.1:9090')));

// smoke goes through all shapes in turn.
export function smoke() {
  one(api(), shapes[exec.vu.iterationInScenario % shapes.length]);
}

export function steady() {
  one(api(), shapeFor());
}

// one does a request of a shape and ends most of its claims: of ten, seven are
// confirmed and released, two released at once, one is left to its lease.
function one(to, shape) {
  const via = __ENV.VIA;
  const req = requestOf(shape, lease);
  const at = Math.floor((Date.now() - exec.scenario.startTime) / 1000 + (exec.scenario.name.startsWith('steady') ? steadyFrom : 0));
  const began = Date.now();
  const a = to.select(req);
  const tags = { via, shape: shape.name, at: String(at - (at % bucketSeconds)) };
  const want = { placed: 'OK', refused: 'NO_VALID_HOST', invalid: 'INVALID_REQUEST' }[shape.expect];
  expected.add(a.code === want, { via });
  if (a.code !== want) {
    wrong.add(1, { via, shape: shape.name, got: a.code });
    console.error(`${via} ${shape.name}: ${a.code}, want ${want}: ${String(a.text).slice(0, 300)}`);
  }
  if (a.code !== 'OK') {
    if (shape.expect !== 'placed') refused.add(1, { via });
    selectMs.add(Date.now() - began, tags);
    return;
  }
  const chosen = (a.body.destinations || []).map((d) => ({ consumer_uuid: d.instance_uuid, claim_id: d.selected.claim_id, cell: d.selected.cell }));
  selectMs.add(Date.now() - began, Object.assign({ cell: chosen.length ? chosen[0].cell : 'none' }, tags));
  partial.add(a.body.partial === true, { via });
  exact.add(a.body.exact === true, { via });
  for (const c of chosen) {
    selections.add(1, { cell: c.cell, via });
    for (const name of cells) cellShare.add(name === c.cell, { cell: name });
  }
  inspect(to, shape, req, a, chosen, via);
  end(to, chosen, via);
}

// inspect checks what an answer promises.
function inspect(to, shape, req, a, chosen, via) {
  const hosts = a.body.destinations.map((d) => d.selected.compute_node_uuid);
  const zone = req.request_spec.availability_zone;
  check(a, {
    'a claim for each instance': () => chosen.length === req.instance_uuids.length && chosen.every((c, i) => c.claim_id && c.consumer_uuid === req.instance_uuids[i]),
    'in a cell there is': () => chosen.every((c) => cells.includes(c.cell)),
    'in the zone asked for': () => !zone || a.body.destinations.every((d) => d.selected.availability_zone === zone),
  }, { via });
  if (shape.name === 'anti-affinity') check(a, { 'anti-affinity: on different hosts': () => new Set(hosts).size === hosts.length }, { via });
  if (shape.name === 'affinity') check(a, { 'affinity: on one host': () => new Set(hosts).size === 1 }, { via });
  if (shape.name === 'alternates') check(a, { 'alternates are of the same cell': () => a.body.destinations.every((d) => (d.alternates || []).every((x) => x.cell === d.selected.cell)) }, { via });
  if (shape.name === 'repeated') {
    const again = to.select(req);
    check(again, { 'the same request has the same answer': () => again.code === 'OK' && again.body.destinations.every((d, i) => d.selected.claim_id === chosen[i].claim_id) }, { via });
  }
}

function end(to, chosen, via) {
  const roll = Math.random();
  if (roll >= 0.9) return;
  for (const c of chosen) {
    if (roll < 0.7) {
      const began = Date.now();
      const r = to.confirm(c);
      confirmMs.add(Date.now() - began, { via });
      check(r, { 'confirmed': () => r.code === 'OK' && r.body.claim.state === 'CONFIRMED' }, { via });
    }
    const began = Date.now();
    const r = to.release(c);
    releaseMs.add(Date.now() - began, { via });
    check(r, { 'released': () => r.code === 'OK' }, { via });
  }
}

// handleSummary writes the report: a page without anything from elsewhere, and
// the same numbers as JSON.
export function handleSummary(data) {
  const about = {
    phases, cells, protocols, bucketSeconds, totalSeconds, perProtocol, steadySeconds, steadyFrom,
    shapes: shapes.map((s) => ({ name: s.name, share: s.share, expect: s.expect })),
    machine: env('MACHINE', ''), revision: env('REVISION', ''), at: new Date().toISOString(), hosts: env('HOSTS', ''),
  };
  const out = env('OUT', '.');
  return {
    stdout: textOf(data, about, `${out}/report.html`),
    [`${out}/report.html`]: htmlOf(data, about),
    [`${out}/report.json`]: JSON.stringify({ about, metrics: data.metrics, checks: data.root_group, state: data.state }, null, 1),
  };
}
