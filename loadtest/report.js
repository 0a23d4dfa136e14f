// The report of a run, from k6's summary: a page that needs nothing from
// elsewhere, and a text for the terminal.
import { bars, lines } from './charts.js';

const colors = { rest: '#0b6fb8', grpc: '#c8541b' };
const names = { rest: 'REST', grpc: 'gRPC' };
// A threshold that only keeps a tagged metric in the summary.
// Thresholds by which k6 keeps a tagged metric; none is a promise.
const notPromises = ['max>=0', 'rate>=0'];

const esc = (s) => String(s).replace(/[&<>"]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c]);
const ms = (x) => (x === undefined ? '–' : x < 10 && !Number.isInteger(x) ? x.toFixed(1) : x.toFixed(0));
const percent = (x) => `${(100 * x).toFixed(x > 0.9995 || x === 0 ? 0 : 1)} %`;

// metric gives the values of a metric; undefined when it was never measured.
function metric(data, name) {
  const m = data.metrics[name];
  return m && m.values && (m.values.count === undefined || m.values.count > 0 || m.type !== 'trend') ? m.values : undefined;
}

// promises lists the thresholds: { metric, rule, ok, value }.
export function promises(data) {
  const out = [];
  for (const name of Object.keys(data.metrics)) {
    const rules = data.metrics[name].thresholds || {};
    for (const rule of Object.keys(rules)) {
      if (notPromises.includes(rule)) continue;
      out.push({ metric: name, rule, ok: rules[rule].ok, value: measured(data.metrics[name], rule) });
    }
  }
  return out.sort((a, b) => a.ok - b.ok || (a.metric < b.metric ? -1 : 1));
}

function measured(m, rule) {
  const v = m.values[rule.split(/[<>=]/)[0]];
  if (v === undefined) return '–';
  if (m.contains === 'time') return `${ms(v)} ms`;
  return m.type === 'rate' ? percent(v) : v.toFixed(0);
}

function checksOf(group) {
  return group.checks.concat(...group.groups.map(checksOf));
}

// textOf is what the terminal shows.
export function textOf(data, about, path) {
  const all = promises(data);
  const bad = all.filter((p) => !p.ok);
  const rows = about.protocols.map((via) => {
    const v = metric(data, `select_ms{via:${via}}`) || {};
    return `  ${names[via]}  ${String(v.count || 0).padStart(6)} requests   p50 ${ms(v.med)} ms   p95 ${ms(v['p(95)'])} ms   p99 ${ms(v['p(99)'])} ms   max ${ms(v.max)} ms`;
  });
  const cells = about.cells.map((c) => {
    const share = metric(data, `cell_share{cell:${c}}`);
    const v = metric(data, `select_ms{cell:${c}}`) || {};
    return `  ${c}  ${share ? percent(share.rate) : '–'} of the selections   p99 ${ms(v['p(99)'])} ms`;
  });
  const failed = bad.map((p) => `  FAILED ${p.metric}: ${p.rule}, is ${p.value}`);
  return [`${about.phases.join(' and ')}: ${all.length - bad.length} of ${all.length} thresholds hold`, ...rows, ...cells, ...failed, `report: ${path}`, ''].join('\n');
}

// htmlOf is the page.
export function htmlOf(data, about) {
  const all = promises(data);
  const bad = all.filter((p) => !p.ok);
  const total = metric(data, 'selections') || { count: 0 };
  const expected = metric(data, 'expected') || { rate: 0 };
  const dropped = metric(data, 'dropped_iterations') || { count: 0 };
  const cards = [
    ['selections, each claimed', total.count],
    ['answers as expected', percent(expected.rate)],
    ...about.protocols.map((via) => [`p95 through ${names[via]}`, `${ms((metric(data, `select_ms{via:${via}}`) || {})['p(95)'])} ms`]),
    ['not sent for want of time', dropped.count],
  ];
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>cellgate under load</title><style>
:root { --ink: #1c2430; --soft: #5d6878; --line: #dfe4ea; --paper: #fff; --ground: #f5f7f9; --good: #1c7a43; --bad: #b3261e }
* { box-sizing: border-box } body { margin: 0; background: var(--ground); color: var(--ink); font: 15px/1.5 system-ui, sans-serif }
main { max-width: 1080px; margin: 0 auto; padding: 28px 20px 48px } h1 { font-size: 25px; margin: 0 } h2 { font-size: 17px; margin: 0 0 10px }
.verdict { display: inline-block; padding: 3px 12px; border-radius: 999px; color: #fff; font-weight: 600; margin: 10px 0 } .soft { color: var(--soft); margin: 4px 0 }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(170px, 1fr)); gap: 12px; margin: 18px 0 }
.card, section { background: var(--paper); border: 1px solid var(--line); border-radius: 8px; padding: 14px 16px }
.card b { display: block; font-size: 24px; line-height: 1.2 } .card span { color: var(--soft); font-size: 13px }
section { margin: 14px 0; overflow-x: auto } .pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(440px, 1fr)); gap: 14px } .pair section { margin: 0 }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums } th, td { padding: 5px 10px; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap }
th { color: var(--soft); font-weight: 500; font-size: 13px } th:first-child, td:first-child { text-align: left } tr:last-child td { border-bottom: 0 }
td.left, th.left { text-align: left } .ok { color: var(--good) } .bad { color: var(--bad); font-weight: 600 } code { font: 13px ui-monospace, monospace }
svg { width: 100%; height: auto; display: block } svg text { font: 12px system-ui, sans-serif; fill: var(--soft) } .bar { background: #e8edf2; border-radius: 3px; height: 10px; width: 160px; display: inline-block; vertical-align: middle } .bar i { display: block; height: 10px; border-radius: 3px; background: #0b6fb8 }
</style></head><body><main>
<h1>cellgate under load</h1>
<div class="verdict" style="background: var(--${bad.length ? 'bad' : 'good'})">${bad.length ? `${bad.length} of ${all.length} thresholds failed` : `all ${all.length} thresholds hold`}</div>
<p class="soft">${esc(about.cells.length)} cells with ${esc(about.hosts)} hosts each. ${esc(describe(about))}</p>
<p class="soft">${esc(about.at)} · ${esc(about.machine)} · ${esc(about.revision)}</p>
<div class="cards">${cards.map(([what, n]) => `<div class="card"><b>${esc(n)}</b><span>${esc(what)}</span></div>`).join('')}</div>
${bad.length ? `<section><h2>What failed</h2>${thresholdTable(bad)}</section>` : ''}
<section><h2>Answers a second</h2>${lines({ series: overTime(data, about, (v) => (v.count || 0) / about.bucketSeconds, ''), unit: '/s', marks: marks(about) })}</section>
<section><h2>Latency of a selection over time</h2>${lines({ series: overTime(data, about, (v) => v['p(99)'], 'p99').concat(overTime(data, about, (v) => v.med, 'p50', '5 4')), unit: 'ms', marks: marks(about) })}</section>
<div class="pair">
<section><h2>Latency by protocol</h2>${bars(about.protocols.map((via) => ({ name: names[via], color: colors[via], values: metric(data, `select_ms{via:${via}}`) })))}</section>
<section><h2>Latency by cell of the selection</h2>${bars(about.cells.map((c, i) => ({ name: c, color: `hsl(${205 + i * 47}, 55%, 45%)`, values: metric(data, `select_ms{cell:${c}}`) })))}</section>
</div>
<section><h2>Cells</h2>${cellTable(data, about)}</section>
<section><h2>Calls</h2>${callTable(data, about)}</section>
<section><h2>Kinds of request</h2>${shapeTable(data, about)}</section>
<section><h2>Checks of the answers</h2>${table(['check', 'held', 'did not'], checksOf(data.root_group).map((c) => [esc(c.name), c.passes, c.fails ? `<span class="bad">${c.fails}</span>` : 0]))}</section>
<section><h2>Thresholds</h2>${thresholdTable(all)}</section>
</main></body></html>
`;
}

function describe(about) {
  const parts = [];
  if (about.phases.includes('smoke')) parts.push('Smoke: one caller a protocol, every kind of request in turn.');
  if (about.phases.includes('steady')) parts.push(`Steady: ${about.perProtocol} requests a second through each protocol for ${about.steadySeconds} s, whether or not those before are answered.`);
  return parts.join(' ');
}

const marks = (about) => (about.phases.length > 1 ? [{ at: about.steadyFrom, text: 'steady' }] : []);

// overTime gives a line a protocol. The last bucket is left out: it is not full.
function overTime(data, about, value, label, dash) {
  return about.protocols.map((via) => {
    const points = [];
    for (let at = 0; at + about.bucketSeconds <= about.totalSeconds; at += about.bucketSeconds) {
      const v = metric(data, `select_ms{via:${via},at:${at}}`);
      if (v) points.push([at + about.bucketSeconds / 2, value(v)]);
    }
    return { name: `${names[via]} ${label}`.trim(), color: colors[via], dash, points };
  });
}

function table(headers, rows) {
  return `<table><tr>${headers.map((h) => `<th>${h}</th>`).join('')}</tr>${rows.map((r) => `<tr>${r.map((c) => `<td>${c}</td>`).join('')}</tr>`).join('')}</table>`;
}

const latency = (v) => (v ? [v.count, ms(v.med), ms(v['p(95)']), ms(v['p(99)']), ms(v.max)] : [0, '–', '–', '–', '–']);

function cellTable(data, about) {
  return table(['cell', 'selections', 'share', '', 'requests', 'p50 ms', 'p95 ms', 'p99 ms', 'max ms'], about.cells.map((c) => {
    const n = metric(data, `selections{cell:${c}}`);
    const share = (metric(data, `cell_share{cell:${c}}`) || { rate: 0 }).rate;
    return [esc(c), n ? n.count : 0, percent(share), `<span class="bar"><i style="width:${(100 * share).toFixed(1)}%"></i></span>`, ...latency(metric(data, `select_ms{cell:${c}}`))];
  }));
}

function callTable(data, about) {
  const calls = [['select', 'select_ms'], ['confirm', 'confirm_ms'], ['release', 'release_ms']];
  return table(['call', 'calls', 'p50 ms', 'p95 ms', 'p99 ms', 'max ms'],
    calls.flatMap(([name, m]) => about.protocols.map((via) => [`${name}, ${names[via]}`, ...latency(metric(data, `${m}{via:${via}}`))])));
}

function shapeTable(data, about) {
  return table(['kind', 'of steady', 'to be', 'requests', 'p50 ms', 'p95 ms', 'p99 ms', 'max ms'],
    about.shapes.map((s) => [esc(s.name), `${s.share} %`, s.expect, ...latency(metric(data, `select_ms{shape:${s.name}}`))]));
}

function thresholdTable(list) {
  return table(['metric', 'promise', 'measured', ''], list.map((p) => [`<code>${esc(p.metric)}</code>`, `<code>${esc(p.rule)}</code>`, p.value, p.ok ? '<span class="ok">holds</span>' : '<span class="bad">failed</span>']));
}
