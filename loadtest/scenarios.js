// What a run does: each scenario is a list of phases, one after the other.
//
// A phase has its seconds, and how many times RATE it sends (times; a ramp goes on to `to`
// times), or how many callers that wait for their answers (vus). A tolerant phase may see
// refusals and cells that do not answer; nothing else may go wrong in it. `after` are seconds
// of rest before a phase.
const env = (name, otherwise) => Number(__ENV[name] || otherwise);

const cells = (__ENV.CELLS || '').split(',').length;
const steady = { name: 'steady', seconds: env('STEADY', 30), times: 1 };
const before = { name: 'before', seconds: 15, times: 1 };
const recovered = { name: 'recovered', seconds: 15, times: 1, after: 5 };

export const scenarios = {
  smoke: [{ name: 'smoke', seconds: 10, vus: 1 }],
  steady: [steady],
  // From RATE upwards, until one request in fifty is slower than 200 ms or refused.
  knee: [{ name: 'ramp', seconds: env('STEADY', 60), times: 1, to: env('TIMES', 30), tolerant: true, untilSlow: true }],
  spike: [before, { name: 'spike', seconds: 10, times: env('TIMES', 20), tolerant: true }, recovered],
  soak: [{ name: 'soak', seconds: env('STEADY', 600), times: 1 }],
  // run.sh kills cell1 with SIGKILL when the phase begins, and starts it again after half of it.
  'cell-loss': [before, { name: 'down', seconds: 20, times: 1, tolerant: true }, recovered],
  // run.sh stops every cell and then the gateway, one after the other, and starts it again: some 3 s each.
  upgrade: [before, { name: 'restarts', seconds: Math.max(30, 3 * cells + 6), times: 1, tolerant: true }, recovered],
  // The fullest hosts first: all requests want the same ones.
  'pack-first': [steady],
};
