// The load of `make load`: the phases of one scenario (scenarios.js), through REST and gRPC at
// once. But for the smoke, requests are sent at their rate whether those before were answered
// or not.
//
// Environment: REST (http://host:port), GRPC (host:port), CELLS (names, by commas), SCENARIO,
// RATE (requests a second and protocol), STEADY (seconds of a long phase), TIMES (how many
// times RATE the knee and the spike reach), OUT (directory of the report), STRICT_P95 (overrides
// the limit, to see a threshold fail).
import { check } from 'k6';
import exec from 'k6/execution';
import { Counter, Rate, Trend } from 'k6/metrics';
import { rest, rpc } from './protocols.js';
import { requestOf, shapeFor, shapes } from './requests.js';
import { scenarios } from './scenarios.js';
import { textOf } from './summary.js';

const env = (name, otherwise) => __ENV[name] || otherwise;
const cells = env('CELLS', 'cell1,cell2,cell3').split(',');
const rate = Number(env('RATE', '60'));
const name = env('SCENARIO', 'smoke');
const phases = scenarios[name];
if (!phases) throw new Error(`SCENARIO=${name}: there are ${Object.keys(scenarios).join(', ')}`);
const protocols = ['rest', 'grpc'];
const lease = 5;
const slowMs = 200;

// Latency of select_destinations alone, by protocol (via), phase, and cell of the first selection.
const selectMs = new Trend('select_ms', true);
const confirmMs = new Trend('confirm_ms', true);
const releaseMs = new Trend('release_ms', true);
// Answers that are what was expected of the request; of a tolerant phase, too those that say
// OVERLOADED, or that a cell does not answer.
const expected = new Rate('expected');
const placed = new Counter('placed');
const overloaded = new Counter('overloaded');
const unavailable = new Counter('unavailable');
const partial = new Rate('partial');
const exact = new Rate('exact');
// Slower than slowMs, or refused as OVERLOADED.
const slow = new Rate('slow');
const selections = new Counter('selections');

function k6Scenarios() {
  const all = {};
  let start = 0;
  for (const p of phases) {
    start += p.after || 0;
    for (const via of protocols) {
      const common = { exec: 'one', env: { VIA: via, PHASE: p.name }, tags: { phase: p.name }, startTime: `${start}s`, gracefulStop: '10s' };
      const many = { timeUnit: '1s', preAllocatedVUs: Math.min(300, 15 * Math.ceil(p.to || p.times)), maxVUs: Math.min(400, 60 * Math.ceil(p.to || p.times)) };
      if (p.vus) all[`${p.name}_${via}`] = Object.assign({ executor: 'constant-vus', vus: p.vus, duration: `${p.seconds}s` }, common);
      else if (p.to) {
        all[`${p.name}_${via}`] = Object.assign({
          executor: 'ramping-arrival-rate', startRate: rate * p.times, stages: [{ target: rate * p.to, duration: `${p.seconds}s` }],
        }, many, common);
      } else all[`${p.name}_${via}`] = Object.assign({ executor: 'constant-arrival-rate', rate: rate * p.times, duration: `${p.seconds}s` }, many, common);
    }
    start += p.seconds;
  }
  return all;
}

// Thresholds are the promise. The numbers hold on two shared cores with a wide margin:
// docs/how-to/load.md says what was measured.
function thresholds() {
  const p95 = env('STRICT_P95', '150');
  const shown = ['count>=0']; // not a promise: k6 keeps a tagged metric only for a threshold
  const t = { checks: ['rate==1'] };
  for (const p of phases) {
    t[`expected{phase:${p.name}}`] = ['rate>=0.999'];
    for (const via of protocols) t[`select_ms{phase:${p.name},via:${via}}`] = p.tolerant ? ['max>=0'] : [`p(95)<${p95}`, 'p(99)<400'];
    for (const counter of ['placed', 'overloaded', 'unavailable']) t[`${counter}{phase:${p.name}}`] = shown;
    if (p.untilSlow) t[`slow{phase:${p.name}}`] = [{ threshold: 'rate<0.02', abortOnFail: true, delayAbortEval: '3s' }];
    if (p.tolerant) continue;
    t[`partial{phase:${p.name}}`] = ['rate==0'];
    t[`exact{phase:${p.name}}`] = ['rate>=0.99'];
    for (const via of protocols) for (const m of ['confirm_ms', 'release_ms']) t[`${m}{phase:${p.name},via:${via}}`] = ['p(99)<400'];
    if (!p.vus) for (const via of protocols) t[`dropped_iterations{scenario:${p.name}_${via}}`] = ['count<=10'];
  }
  for (const c of cells) {
    t[`selections{cell:${c}}`] = shown;
    t[`select_ms{cell:${c}}`] = ['max>=0'];
  }
  return t;
}

export const options = {
  scenarios: k6Scenarios(),
  thresholds: thresholds(),
  summaryTrendStats: ['count', 'min', 'avg', 'med', 'p(90)', 'p(95)', 'p(99)', 'max'],
};

const api = () => (__ENV.VIA === 'rest' ? rest(env('REST', 'http://127.0.0.1:8080')) : rpc(env('GRPC', '127.0.0.1:9090')));

// one does a request and ends most of its claims: of ten, seven are confirmed and released,
// two released at once, one is left to its lease.
export function one() {
  const phase = phases.find((p) => p.name === __ENV.PHASE);
  const via = __ENV.VIA;
  if (via === 'rest' && exec.scenario.iterationInTest === 0) console.log(`phase ${phase.name} begins`);
  const shape = phase.vus ? shapes[exec.vu.iterationInScenario % shapes.length] : shapeFor();
  const to = api();
  const req = requestOf(shape, lease);
  const began = Date.now();
  const a = to.select(req);
  const took = Date.now() - began;
  const ends = { placed: 'OK', refused: 'NO_VALID_HOST', invalid: 'INVALID_REQUEST' }[shape.expect];
  slow.add(took > slowMs || a.code === 'OVERLOADED');
  const excused = Boolean(phase.tolerant) && ['OVERLOADED', 'CELL_UNAVAILABLE', 'CONTENDED', 'HTTP 0'].includes(a.code);
  expected.add(a.code === ends || excused);
  if (a.code === 'OVERLOADED') {
    overloaded.add(1);
    if (via === 'rest') check(a, { 'a refusal says when to come again': () => /retry/i.test(a.text) }, { via });
  } else if (excused) unavailable.add(1);
  else if (a.code !== ends) console.error(`${via} ${shape.name}: ${a.code}, want ${ends}: ${String(a.text).slice(0, 300)}`);
  if (a.code !== 'OK') {
    if (!excused) selectMs.add(took, { via });
    return;
  }
  const chosen = (a.body.destinations || []).map((d) => ({ consumer_uuid: d.instance_uuid, claim_id: d.selected.claim_id, cell: d.selected.cell }));
  selectMs.add(took, { via, cell: chosen.length ? chosen[0].cell : 'none' });
  placed.add(chosen.length);
  partial.add(a.body.partial === true);
  exact.add(a.body.exact === true);
  for (const c of chosen) selections.add(1, { cell: c.cell });
  inspect(to, shape, req, a, chosen, via, phase);
  end(to, chosen, via, phase);
}

// inspect checks what an answer promises.
function inspect(to, shape, req, a, chosen, via, phase) {
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
  if (shape.name === 'repeated' && !phase.tolerant) {
    const again = to.select(req);
    check(again, { 'the same request has the same answer': () => again.code === 'OK' && again.body.destinations.every((d, i) => d.selected.claim_id === chosen[i].claim_id) }, { via });
  }
}

// A late confirmation finds its lease expired, and gRPC has one code for that and NO_VALID_HOST.
function end(to, chosen, via, phase) {
  const roll = Math.random();
  if (roll >= 0.9) return;
  const done = (what, r) => {
    const ok = isDone(r);
    if (!ok) console.error(`${via} ${what}: ${r.code}: ${String(r.text).slice(0, 300)}`);
    return ok;
  };
  const isDone = (r) => r.code === 'OK' || (Boolean(phase.tolerant) && ['OVERLOADED', 'CELL_UNAVAILABLE', 'CLAIM_EXPIRED', 'NO_VALID_HOST', 'HTTP 0'].includes(r.code));
  for (const c of chosen) {
    if (roll < 0.7) {
      const began = Date.now();
      const r = to.confirm(c);
      confirmMs.add(Date.now() - began, { via });
      check(r, { confirmed: () => done('confirm', r) }, { via });
    }
    const began = Date.now();
    const r = to.release(c);
    releaseMs.add(Date.now() - began, { via });
    check(r, { released: () => done('release', r) }, { via });
  }
}

export function handleSummary(data) {
  const out = env('OUT', '.');
  const about = { scenario: name, phases, cells, protocols, rate, machine: env('MACHINE', ''), revision: env('REVISION', ''), at: new Date().toISOString() };
  return {
    stdout: textOf(data, about, `${out}/report.html`),
    [`${out}/report.json`]: JSON.stringify({ about, metrics: data.metrics, checks: data.root_group, state: data.state }, null, 1),
  };
}
