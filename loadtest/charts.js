// Charts as inline SVG.

const esc = (s) => String(s).replace(/[&<>"]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c]);

// niceTop gives a round number at or above max, and the step of its grid.
function niceTop(max) {
  const raw = Math.max(max, 1e-9) / 4;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw);
  return { top: step * Math.ceil(max / step || 1), step };
}

const label = (x) => String(Math.round(x * 100) / 100);

// lines draws series over time: [{ name, color, dash, points: [[seconds, value]] }].
// marks are moments: [{ at, text }].
export function lines({ series, unit, marks }) {
  const [w, h, left, right, top, bottom] = [1000, 250, 52, 14, 30, 28];
  const points = series.flatMap((s) => s.points);
  if (points.length === 0) return '<p class="soft">nothing was measured</p>';
  const until = Math.max(...points.map((p) => p[0])) + 1;
  const scale = niceTop(Math.max(...points.map((p) => p[1])));
  const x = (t) => left + ((w - left - right) * t) / until;
  const y = (v) => h - bottom - ((h - top - bottom) * v) / scale.top;
  let out = `<svg viewBox="0 0 ${w} ${h}" role="img">`;
  for (let v = 0; v <= scale.top * 1.001; v += scale.step) {
    out += `<line x1="${left}" x2="${w - right}" y1="${y(v).toFixed(1)}" y2="${y(v).toFixed(1)}" stroke="#e3e8ee"/><text x="${left - 7}" y="${(y(v) + 4).toFixed(1)}" text-anchor="end">${label(v)}</text>`;
  }
  for (let t = 0; t <= until; t += 5) out += `<text x="${x(t).toFixed(1)}" y="${h - 9}" text-anchor="middle">${t} s</text>`;
  for (const m of marks) out += `<line x1="${x(m.at).toFixed(1)}" x2="${x(m.at).toFixed(1)}" y1="${top}" y2="${h - bottom}" stroke="#9aa5b1" stroke-dasharray="2 3"/><text x="${(x(m.at) + 5).toFixed(1)}" y="${top + 11}">${esc(m.text)}</text>`;
  series.forEach((s, i) => {
    out += `<polyline fill="none" stroke="${s.color}" stroke-width="2" stroke-linejoin="round"${s.dash ? ` stroke-dasharray="${s.dash}"` : ''} points="${s.points.map((p) => `${x(p[0]).toFixed(1)},${y(p[1]).toFixed(1)}`).join(' ')}"/>`;
    const at = left + i * 120;
    out += `<line x1="${at}" x2="${at + 22}" y1="12" y2="12" stroke="${s.color}" stroke-width="2"${s.dash ? ` stroke-dasharray="${s.dash}"` : ''}/><text x="${at + 28}" y="16">${esc(s.name)}</text>`;
  });
  return `${out}<text x="${w - right}" y="16" text-anchor="end">${esc(unit)}</text></svg>`;
}

// bars draws percentiles of latency, a group of bars for each percentile:
// [{ name, color, values }], values as k6 summarises a trend in ms.
export function bars(groups) {
  const shown = groups.filter((g) => g.values);
  if (shown.length === 0) return '<p class="soft">nothing was measured</p>';
  const kinds = [['med', 'p50'], ['p(90)', 'p90'], ['p(95)', 'p95'], ['p(99)', 'p99']];
  const [w, h, left, top, bottom] = [500, 230, 44, 34, 26];
  const scale = niceTop(Math.max(...shown.map((g) => g.values['p(99)'])));
  const y = (v) => h - bottom - ((h - top - bottom) * v) / scale.top;
  const room = (w - left) / kinds.length;
  const wide = Math.min((room * 0.78) / shown.length, 34);
  let out = `<svg viewBox="0 0 ${w} ${h}" role="img">`;
  for (let v = 0; v <= scale.top * 1.001; v += scale.step) {
    out += `<line x1="${left}" x2="${w}" y1="${y(v).toFixed(1)}" y2="${y(v).toFixed(1)}" stroke="#e3e8ee"/><text x="${left - 6}" y="${(y(v) + 4).toFixed(1)}" text-anchor="end">${label(v)}</text>`;
  }
  kinds.forEach(([key, name], k) => {
    const from = left + k * room + (room - wide * shown.length) / 2;
    out += `<text x="${(left + (k + 0.5) * room).toFixed(1)}" y="${h - 8}" text-anchor="middle">${name}</text>`;
    shown.forEach((g, i) => {
      const v = g.values[key];
      const x = from + i * wide;
      out += `<rect x="${x.toFixed(1)}" y="${y(v).toFixed(1)}" width="${(wide - 2).toFixed(1)}" height="${(h - bottom - y(v)).toFixed(1)}" fill="${g.color}" rx="1.5"><title>${esc(g.name)} ${name}: ${v.toFixed(1)} ms</title></rect>`;
      if (wide >= 24) out += `<text x="${(x + wide / 2 - 1).toFixed(1)}" y="${(y(v) - 4).toFixed(1)}" text-anchor="middle">${v < 10 ? v.toFixed(1) : v.toFixed(0)}</text>`;
    });
  });
  const step = Math.min(90, (w - left - 30) / shown.length);
  shown.forEach((g, i) => {
    out += `<rect x="${left + i * step}" y="5" width="11" height="11" rx="2" fill="${g.color}"/><text x="${left + i * step + 16}" y="15">${esc(g.name)}</text>`;
  });
  return `${out}<text x="${w}" y="15" text-anchor="end">ms</text></svg>`;
}
