// A line chart over time.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

export interface Line {
  label: string;
  values: (number | null | undefined)[];
  color: string;
}

// newestOf is the newest time of a chart, now for one without. uPlot's own range of a single time is a day.
const newestOf = (u: uPlot) => u.data[0].at(-1) ?? Date.now() / 1000;

// Chart draws lines over times (Unix seconds) and says their newest values to who cannot see them.
export function Chart({ label, at, lines, text }: { label: string; at: number[]; lines: Line[]; text: (v: number) => string }) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const names = lines.map((l) => l.label).join();
  useEffect(() => {
    const el = box.current!;
    const color = (name: string) => getComputedStyle(el).getPropertyValue(name).trim();
    const axis = { stroke: () => color("--quiet"), grid: { stroke: () => color("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui" };
    const p = new uPlot(
      {
        width: el.clientWidth || 300,
        height: 160,
        cursor: { y: false, points: { size: 6 } },
        legend: { live: true, markers: { width: 0, fill: (_u, i) => `var(${lines[i - 1].color})` } },
        axes: [{ ...axis, values: (_u, ticks) => ticks.map((t) => new Date(t * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })), incrs: [60, 120, 300, 600] }, { ...axis, size: 64, values: (_u, ticks) => ticks.map(text) }],
        scales: { x: { range: (u) => [Math.min(u.data[0][0] ?? Infinity, newestOf(u) - 300), newestOf(u)] }, y: { range: (_u, _min, max) => [0, max > 0 ? max * 1.1 : 1] } },
        series: [
          { value: (_u, v) => (v == null ? "–" : new Date(v * 1000).toLocaleTimeString("en-GB")) },
          ...lines.map((l) => ({ label: l.label, stroke: () => color(l.color), width: 2, spanGaps: true, points: { show: l.values.length < 3 }, value: (_u: uPlot, v: number | null) => (v == null ? "–" : text(v)) })),
        ],
      },
      [[], ...lines.map(() => [])] as unknown as uPlot.AlignedData,
      el,
    );
    plot.current = p;
    const size = new ResizeObserver(() => p.setSize({ width: el.clientWidth, height: 160 }));
    size.observe(el);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const redraw = () => p.redraw();
    dark.addEventListener("change", redraw);
    addEventListener("themechange", redraw);
    return () => {
      size.disconnect();
      dark.removeEventListener("change", redraw);
      removeEventListener("themechange", redraw);
      p.destroy();
    };
  }, [names]);
  useEffect(() => plot.current?.setData([at, ...lines.map((l) => l.values)] as uPlot.AlignedData), [at, lines]);
  const newest = lines.map((l) => `${l.label} ${l.values.at(-1) == null ? "none" : text(l.values.at(-1)!)}`).join(", ");
  return <div class="chart" ref={box} role="img" aria-label={`${label}, now: ${newest}`} />;
}
