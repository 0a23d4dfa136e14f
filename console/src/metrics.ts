// Histograms of a Prometheus text.

export interface Buckets {
  // Upper bounds, the last +Inf, and the counts up to each.
  bounds: number[];
  counts: number[];
}

export interface Difference extends Buckets {
  total: number;
}

// readHistogram gives the histograms of a name whose labels are as wanted, by another label.
export function readHistogram(text: string, name: string, want: Record<string, string>, by: string): Record<string, Buckets> {
  const out: Record<string, Buckets> = {};
  const begin = name + "_bucket{";
  for (const line of text.split("\n")) {
    if (!line.startsWith(begin)) continue;
    const end = line.lastIndexOf("}");
    const labels = Object.fromEntries([...line.slice(begin.length, end).matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map((m) => [m[1], m[2]]));
    if (Object.entries(want).some(([k, v]) => labels[k] !== v)) continue;
    const b = (out[labels[by]] ??= { bounds: [], counts: [] });
    b.bounds.push(labels.le === "+Inf" ? Infinity : Number(labels.le));
    b.counts.push(Number(line.slice(end + 1)));
  }
  return out;
}

// difference gives what came after an earlier reading; all of it when the process began anew.
export function difference(b: Buckets, before?: Buckets): Difference {
  const restarted = !before || before.counts.length !== b.counts.length || (before.counts.at(-1) ?? 0) > (b.counts.at(-1) ?? 0);
  const counts = restarted ? b.counts : b.counts.map((n, i) => n - before.counts[i]);
  return { bounds: b.bounds, counts, total: counts.at(-1) ?? 0 };
}

// quantile interpolates within a bucket, as Prometheus does; undefined of nothing.
export function quantile(d: Difference, q: number): number | undefined {
  if (!d.total) return undefined;
  const rank = q * d.total;
  const i = d.counts.findIndex((n) => n >= rank);
  const low = i > 0 ? d.bounds[i - 1] : 0;
  if (!isFinite(d.bounds[i])) return low;
  const under = i > 0 ? d.counts[i - 1] : 0;
  const inside = d.counts[i] - under;
  return inside ? low + ((d.bounds[i] - low) * (rank - under)) / inside : d.bounds[i];
}
