// What a refused request lacks, and the changes that fit.
import { Bag } from "../api";
import { amount, className, count } from "../format";
import { Badge, Link, Table } from "../ui";

const missText = (m: Bag) => {
  if (Number(m.asked) > 0) return `${className(m.detail) || m.filter}: asked ${amount(m.asked, m.detail)}, at most ${amount(m.most, m.detail)}`;
  return m.detail ? `${m.filter}: ${m.detail}` : m.filter;
};

export function Misses({ of }: { of: Bag }) {
  const changes: Bag[] = of.changes ?? [];
  const nearest: Bag[] = of.nearest ?? [];
  const conditions: Bag[] = of.conditions ?? [];
  return (
    <>
      {changes.length > 1
        ? <div class="answer"><strong>Changes of the request that fit, the smallest first:</strong><ol>{changes.map((c) => <li key={c.text}>{c.text}</li>)}</ol></div>
        : of.smallest_change && <p class="answer"><strong>Smallest change of the request:</strong> {of.smallest_change}</p>}
      {of.smallest_operator_change && <p class="answer"><strong>An operator could:</strong> {of.smallest_operator_change}</p>}
      {nearest.length > 0 && <>
        <h3>Nearest hosts</h3>
        <Table label="Nearest hosts" head={["Host", "Cell", "What it lacks", { text: "Hosts alike", right: true }, "The request can change it"]}>
          {nearest.map((n) => (
            <tr key={n.host_uuid}>
              <td><Link to={`/hosts/${n.host_uuid}`}>{n.service_host}</Link></td>
              <td>{n.cell}</td>
              <td class="wide">{n.misses.map((m: Bag, i: number) => <div key={i}>{missText(m)}</div>)}</td>
              <td class="right">{count(n.alike)}</td>
              <td>{n.changeable ? <Badge tone="good">yes</Badge> : <Badge tone="plain">no</Badge>}</td>
            </tr>
          ))}
        </Table>
      </>}
      {conditions.length > 0 && <>
        <h3>Conditions that hosts do not meet</h3>
        <Table label="Conditions" head={["Condition", { text: "Hosts", right: true }, { text: "That meet all others", right: true }]}>
          {conditions.map((c, i) => (
            <tr key={i}>
              <td class="wide">{c.filter}{c.detail && ` ${c.detail}`}</td>
              <td class="right">{count(c.hosts)}</td>
              <td class="right">{count(c.alone)}</td>
            </tr>
          ))}
        </Table>
      </>}
    </>
  );
}
