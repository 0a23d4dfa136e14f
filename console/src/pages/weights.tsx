// Weights of ranked hosts as stacked bars: what each weigher added.
import { Bag } from "../api";
import { Badge, Link, Table } from "../ui";

const colors = ["--c0", "--c1", "--c2", "--c3", "--c4", "--c5", "--c6", "--c7"];

const name = (w: string) => w.replace(/Weigher$/, "");
const number = (x: number) => (Math.abs(x) >= 1000 ? x.toFixed(0) : x.toFixed(4));

// chosen is the uuid of the host that was chosen.
export function Weights({ ranked, chosen }: { ranked: Bag[]; chosen?: string }) {
  // Those that add nothing to any host make no difference.
  const weighers = [...new Set(ranked.flatMap((r) => r.scores.filter((s: Bag) => s.score !== 0).map((s: Bag) => s.weigher as string)))];
  const color = (w: string) => `var(${colors[weighers.indexOf(w) % colors.length]})`;
  const most = Math.max(...ranked.map((r) => r.scores.reduce((n: number, s: Bag) => n + Math.abs(s.score), 0)), 1e-9);
  return (
    <>
      <ul class="weight-legend">{weighers.map((w) => <li key={w}><span style={{ background: color(w) }} />{name(w)}</li>)}</ul>
      <ol class="weights">
        {ranked.map((r) => (
          <li key={r.host_uuid}>
            <span class="weight-name"><Link to={`/hosts/${r.host_uuid}`}>{r.service_host}</Link> <span class="quiet">{r.cell}</span>{r.host_uuid === chosen && <> <Badge tone="good">chosen</Badge></>}</span>
            <span class="weight-bar" role="img" aria-label={`Weight ${number(r.weight)}: ` + r.scores.filter((s: Bag) => s.score !== 0).map((s: Bag) => `${name(s.weigher)} ${number(s.score)}`).join(", ")}>
              {r.scores.filter((s: Bag) => s.score !== 0).map((s: Bag) => (
                <span key={s.weigher} class={s.score < 0 ? "negative" : ""} title={`${s.weigher}: ${number(s.score)} = ${s.multiplier} × ${number(s.normalized)} (raw ${s.raw})`} style={{ width: `${(100 * Math.abs(s.score)) / most}%`, background: color(s.weigher) }} />
              ))}
            </span>
            <span class="weight-sum">{number(r.weight)}</span>
          </li>
        ))}
      </ol>
      <details>
        <summary>Numbers: raw weight, normalized, multiplied</summary>
        <Table label="Weights" head={["Host", "Weigher", { text: "Raw", right: true }, { text: "Normalized", right: true }, { text: "Multiplier", right: true }, { text: "Score", right: true }]}>
          {ranked.flatMap((r) => r.scores.map((s: Bag, i: number) => (
            <tr key={r.host_uuid + s.weigher}>
              <td>{i === 0 && r.service_host}</td>
              <td>{s.weigher}</td>
              <td class="right">{s.raw}</td>
              <td class="right">{s.normalized.toFixed(4)}</td>
              <td class="right">{s.multiplier}</td>
              <td class="right">{number(s.score)}</td>
            </tr>
          )))}
        </Table>
      </details>
    </>
  );
}
