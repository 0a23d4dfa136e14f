import { Bag } from "../api";
import { Chart } from "../chart";
import { ago, clock, count, plural, protoSeconds, seconds } from "../format";
import { Rates, useGet, useLive, useRates } from "../live";
import { Badge, Card, Empty, Link, Meter, Missing, Page, Problem, Table, useNow, Waiting } from "../ui";

const mainClasses = ["VCPU", "PCPU", "MEMORY_MB", "DISK_GB"];

export function Overview() {
  const live = useLive();
  const rates = useRates();
  const now = rates.at(-1);
  const cells = live.cells;
  const out = (cells ?? []).filter((c) => !c.available);
  // Read again when there is another decision, or when other cells answer.
  const latest = useGet("/v1/decisions?page_size=8", [live.newest, ...out.map((c) => c.cell)].join(" "));
  const sum = (f: (c: Bag) => number, of = cells ?? []) => of.reduce((n, c) => n + f(c), 0);
  // Hosts of a cell that does not answer count among all hosts, as it gave them last, and not among those that are up.
  const answering = (cells ?? []).filter((c) => c.available);
  const last = out.length ? `; ${out.map((c) => c.cell).join(", ")} as last known` : "";
  const at = rates.map((r) => r.at);
  return (
    <Page title="Overview">
      <p class="quiet">
        cellgate chooses hosts for new instances over all cells of a cloud, and claims them. This gateway serves a REST API at <code>/v1/</code> (<a href="/openapi.json">its description</a>),{" "}
        <a href="/readyz">its health</a> and <a href="/metrics">its metrics</a>; the handbook is <code>docs/</code> of its repository.
      </p>
      {cells && (
        <dl class="figures">
          <Figure name="Cells" value={`${cells.length - out.length} of ${cells.length}`} note={out.length ? out.map((c) => c.cell).join(", ") + " not available" : "all available"} bad={out.length > 0} />
          <Figure name="Hosts up" value={count(sum((c) => c.hosts_up, answering))} note={`of ${count(sum((c) => c.hosts))}${last}`} />
          <Figure name="Claims" value={count(sum((c) => c.claims_confirmed))} note={`and ${count(sum((c) => c.claims_pending))} pending${last}`} />
          <Figure name="Selections" value={now ? `${now.perSecond.toFixed(now.perSecond < 10 ? 1 : 0)}/s` : "–"} note="of this gateway" />
          <Figure name="Median" value={seconds(now?.p50)} note="of the last minute" />
          <Figure name="99th percentile" value={seconds(now?.p99)} note="of the last minute" />
        </dl>
      )}
      {!cells ? !live.problem && <Waiting what="the cells" /> : (
        <div class="grid">{cells.map((c) => <CellCard key={c.cell} cell={c} rates={now} />)}</div>
      )}
      <div class="grid two">
        <Card title="Selections a second">
          <Chart label="Selections a second" at={at} lines={[{ label: "a second", values: rates.map((r) => r.perSecond), color: "--blue" }]} text={(v) => v.toFixed(v < 10 ? 1 : 0)} />
        </Card>
        <Card title="How long selections take">
          <Chart label="How long selections take" at={at} lines={[{ label: "median", values: rates.map((r) => r.p50), color: "--blue" }, { label: "99th percentile", values: rates.map((r) => r.p99), color: "--orange" }]} text={seconds} />
        </Card>
      </div>
      <Card title="Latest decisions" extra={<Link to="/decisions">All decisions</Link>}>
        {latest.error && <Problem error={latest.error} />}
        <Missing cells={latest.value?.unavailable_cells} what="the decisions that it keeps are" />
        {latest.value && <DecisionTable decisions={latest.value.decisions} />}
      </Card>
    </Page>
  );
}

const Figure = ({ name, value, note, bad }: { name: string; value: string; note: string; bad?: boolean }) => (
  <div class={bad ? "bad" : ""}>
    <dt>{name}</dt>
    <dd>{value}</dd>
    <dd class="quiet">{note}</dd>
  </div>
);

// hasNumbers: the cell gave hosts and claims, now or before it fell silent.
export const hasNumbers = (cell: Bag) => cell.table_version !== "";

// LastKnown says how old a cell's numbers are, when they are not of now.
export function LastKnown({ cell }: { cell: Bag }) {
  const now = useNow();
  if (cell.answered_at) return <p><Badge tone="warn">last known</Badge> The numbers are of its last answer, {ago(cell.answered_at, now)}, at {clock(cell.answered_at)}.</p>;
  if (!hasNumbers(cell)) return <p class="empty">It has not answered this gateway yet: its hosts and claims are not known.</p>;
  return null;
}

export const gateTone = { LEGACY: "warn", SHADOW: "info", NATIVE: "good" } as const;

function CellCard({ cell, rates }: { cell: Bag; rates?: Rates }) {
  const gate = cell.gate?.state as keyof typeof gateTone | undefined;
  const main = cell.resources.filter((r: Bag) => mainClasses.includes(r.resource_class)).sort((a: Bag, b: Bag) => mainClasses.indexOf(a.resource_class) - mainClasses.indexOf(b.resource_class));
  const others = cell.resources.length - main.length;
  const r = rates?.cells[cell.cell];
  return (
    <Card
      class={cell.available ? "" : "unavailable"}
      title={<Link to={`/cells/${encodeURIComponent(cell.cell)}`}>{cell.cell}</Link>}
      extra={
        <span class="badges">
          {gate && <Badge tone={gateTone[gate]} title={cell.gate.reason}>{gate}</Badge>}
          {!cell.enabled && <Badge tone="plain">disabled</Badge>}
          {cell.available ? <Badge tone="good">available</Badge> : <Badge tone="bad">not available</Badge>}
        </span>
      }
    >
      {cell.reason && <p class="reason">{cell.reason}</p>}
      <LastKnown cell={cell} />
      {hasNumbers(cell) && (
        <div class={cell.answered_at ? "old" : ""}>
          <p>
            {count(cell.hosts_up)} of {plural(cell.hosts, "host")} {cell.answered_at ? "were up" : "up"}, {plural(cell.claims_confirmed, "claim")}
            {cell.claims_pending > 0 && `, ${count(cell.claims_pending)} pending`}
            {cell.hosts_withheld + cell.hosts_disabled > 0 && `, ${plural(cell.hosts_withheld + cell.hosts_disabled, "host")} out of service`}
          </p>
          {main.map((t: Bag) => <Meter key={t.resource_class} resourceClass={t.resource_class} used={Number(t.used)} capacity={Number(t.capacity)} />)}
          {others > 0 && <p class="quiet small">and {plural(others, "other resource class", "other resource classes")}</p>}
        </div>
      )}
      <ul class="replicas" aria-label="Replicas">
        {cell.replica_states.map((s: Bag) => (
          <li key={s.address}>
            <code>{s.address}</code>{" "}
            {s.breaker === "CLOSED" ? s.loading ? <Badge tone="warn">loading</Badge> : <Badge tone="good">breaker closed</Badge> : <Badge tone="bad" title={s.last_error}>breaker {s.breaker === "OPEN" ? "open" : "half open"}</Badge>}
          </li>
        ))}
      </ul>
      <p class="quiet small">
        {r && r.perSecond > 0 ? `${r.perSecond.toFixed(1)} calls a second, median ${seconds(r.p50)}, 99 % within ${seconds(r.p99)}` : "No calls in the last minute"}
      </p>
    </Card>
  );
}

// rejectsOf adds up the rejects of cells, in filter order.
export function rejectsOf(cells: Bag[]): { filter: string; detail: string; hosts: number }[] {
  const out = new Map<string, { filter: string; detail: string; hosts: number }>();
  for (const c of cells) for (const r of c.rejects) {
    const key = r.filter + "\n" + r.detail;
    const sum = out.get(key) ?? { filter: r.filter, detail: r.detail, hosts: 0 };
    sum.hosts += r.hosts;
    out.set(key, sum);
  }
  return [...out.values()];
}

export function Outcome({ d }: { d: Bag }) {
  if (d.refusal) return <Badge tone={d.refusal === "NO_VALID_HOST" ? "warn" : "bad"}>{d.refusal}</Badge>;
  return <Badge tone="good">{d.dry_run ? "dry run" : "placed"}</Badge>;
}

// reasonOf is what rejected the most hosts by a reason that was asked for: a filter, or what it names.
function reasonOf(d: Bag, reason: string): string {
  const asked = reason.startsWith(d.refusal + " ") ? reason.slice(d.refusal.length + 1) : reason;
  const text = (r: Bag) => (r.detail ? `${r.filter}(${r.detail})` : r.filter);
  const found = rejectsOf(d.cells).filter((r) => asked && [r.filter, r.detail, text(r)].includes(asked)).sort((a, b) => b.hosts - a.hosts)[0];
  return found ? `${plural(found.hosts, "host")} by ${text(found)}` : "";
}

// reason is the one that the decisions were asked for by; it is shown before the message.
export function DecisionTable({ decisions, reason = "" }: { decisions: Bag[]; reason?: string }) {
  if (decisions.length === 0) return <Empty>No decisions.</Empty>;
  return (
    <Table label="Decisions" head={["Time", "Outcome", "Operation", { text: "Instances", right: true }, "Hosts, or why not", { text: "Took", right: true }]}>
      {decisions.map((d) => {
        const hosts: string[] = d.destinations.map((x: Bag) => x.selected?.service_host).filter(Boolean);
        return (
          <tr key={d.decision_id}>
            <td><Link to={`/decisions/${d.decision_id}`}>{clock(d.decided_at)}</Link></td>
            <td><Outcome d={d} />{d.partial && <> <Badge tone="warn">partial</Badge></>}</td>
            <td>{d.operation === "OPERATION_UNSPECIFIED" ? "BUILD" : d.operation}</td>
            <td class="right">{d.instance_uuids.length}</td>
            <td class="wide">{d.refusal ? <>{reasonOf(d, reason) && <><strong>{reasonOf(d, reason)}.</strong> </>}{d.message}</> : hosts.slice(0, 3).join(", ") + (hosts.length > 3 ? ` and ${hosts.length - 3} more` : "")}</td>
            <td class="right">{seconds(protoSeconds(d.took))}</td>
          </tr>
        );
      })}
    </Table>
  );
}
