// What the terminal shows of a run, from k6's summary.

const ms = (x) => (x === undefined ? '–' : x < 10 && !Number.isInteger(x) ? x.toFixed(1) : x.toFixed(0));
const left = (text, width) => String(text).padEnd(width);
const right = (text, width) => String(text).padStart(width);
const values = (data, name) => (data.metrics[name] && data.metrics[name].values) || {};
// Thresholds by which k6 keeps a tagged metric; none is a promise.
const notPromises = ['max>=0', 'count>=0'];

// promises lists the thresholds: { metric, rule, ok }.
function promises(data) {
  const out = [];
  for (const metric of Object.keys(data.metrics)) {
    const rules = data.metrics[metric].thresholds || {};
    for (const rule of Object.keys(rules)) if (!notPromises.includes(rule)) out.push({ metric, rule, ok: rules[rule].ok });
  }
  return out;
}

export function textOf(data, about, path) {
  const ramp = about.phases.find((p) => p.untilSlow);
  // That a ramp ends is its result.
  const all = promises(data).filter((p) => !p.metric.startsWith('slow{'));
  const bad = all.filter((p) => !p.ok);
  const lines = [`${about.scenario}: ${all.length - bad.length} of ${all.length} thresholds hold`, ''];
  lines.push(`${left('PHASE', 11)}${left('VIA', 6)}${['REQUESTS', 'P50 MS', 'P95 MS', 'P99 MS', 'MAX MS'].map((h) => right(h, 10)).join('')}`);
  for (const p of about.phases) {
    for (const via of about.protocols) {
      const v = values(data, `select_ms{phase:${p.name},via:${via}}`);
      lines.push(left(p.name, 11) + left(via, 6) + [v.count || 0, ms(v.med), ms(v['p(95)']), ms(v['p(99)']), ms(v.max)].map((x) => right(x, 10)).join(''));
    }
  }
  lines.push('', `${left('PHASE', 11)}${['PLACED', 'A SECOND', 'OVERLOADED', 'UNAVAILABLE'].map((h) => right(h, 13)).join('')}`);
  for (const p of about.phases) {
    const n = (counter) => values(data, `${counter}{phase:${p.name}}`).count || 0;
    const seconds = p.untilSlow ? data.state.testRunDurationMs / 1000 : p.seconds;
    lines.push(left(p.name, 11) + [n('placed'), (n('placed') / seconds).toFixed(0), n('overloaded'), n('unavailable')].map((x) => right(x, 13)).join(''));
  }
  lines.push('', `${left('CELL', 11)}${['SELECTIONS', 'P50 MS', 'P99 MS'].map((h) => right(h, 12)).join('')}`);
  for (const c of about.cells) {
    const v = values(data, `select_ms{cell:${c}}`);
    lines.push(left(c, 11) + [values(data, `selections{cell:${c}}`).count || 0, ms(v.med), ms(v['p(99)'])].map((x) => right(x, 12)).join(''));
  }
  lines.push('');
  if (ramp) {
    const at = Math.min(1, data.state.testRunDurationMs / 1000 / ramp.seconds);
    const sent = 2 * about.rate * (ramp.times + (ramp.to - ramp.times) * at);
    lines.push(at < 1 ? `the knee is at ${sent.toFixed(0)} requests a second: one in fifty was slow or refused` : `no knee up to ${sent.toFixed(0)} requests a second: raise TIMES`);
  }
  for (const p of bad) lines.push(`FAILED ${p.metric}: ${p.rule}`);
  for (const c of data.root_group.checks) if (c.fails) lines.push(`FAILED ${c.fails} of ${c.passes + c.fails} answers: ${c.name}`);
  lines.push(`report: ${path}`, '');
  return lines.join('\n');
}
