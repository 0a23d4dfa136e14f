import { Bag } from "../api";
import { Chart } from "../chart";
import { clock, count, plural, protoSeconds, seconds } from "../format";
import { Rates, useGet, useLive, useRates } from "../live";
import { Badge, Card, Empty, Link, Meter, Page, Problem, Table, Waiting } from "../ui";

const mainClasses = ["VCPU", "PCPU", "MEMORY_MB", "DISK_GB"];

export function Overview() {
  const live = useLive();
  const rates = useRates();
  const latest = useGet("/v1/decisions?page_size=8", live.newest);
  const now = rates.at(-1);
  const cells = live.cells;
  const sum = (f: (c: Bag) => number) => (cells ?? []).reduce((n, c) => n + f(c), 0);
  const out = (cells ?? []).filter((c) => !c.available);
  const at = rates.map((r) => r.at);
  return (
    <Page title="Overview">
      {cells && (
        <dl class="figures">
          <Figure name="Cells" value={`${cells.length - out.length} of ${cells.length}`} note={out.length ? out.map((c) => c.cell).join(", ") + " not available" : "all available"} bad={out.length > 0} />
          <Figure name="Hosts up" value={count(sum((c) => c.hosts_up))} note={`of ${count(sum((c) => c.hosts))}`} />
          <Figure name="Claims" value={count(sum((c) => c.claims_confirmed))} note={`and ${count(sum((c) => c.claims_pending))} pending`} />
          <Figure name="Selections" value={now ? `${now.perSecond.toFixed(now.perSecond < 10 ? 1 : 0)}/s` : "–"} note="of this gateway" />
          <Figure name="Median" value={seconds(now?.p50)} note="of the last minute" />
          <Figure name="99th percentile" value={seconds(now?.p99)} note="of the last minute" />
        </dl>
      )}
      {!cells ? live.problem ? <div class="problem" role="alert">{live.problem}</div> : <Waiting what="the cells" /> : (
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
      {cell.available && (
        <>
          <p>
            {count(cell.hosts_up)} of {plural(cell.hosts, "host")} up, {plural(cell.claims_confirmed, "claim")}
            {cell.claims_pending > 0 && `, ${count(cell.claims_pending)} pending`}
            {cell.hosts_withheld + cell.hosts_disabled > 0 && `, ${plural(cell.hosts_withheld + cell.hosts_disabled, "host")} out of service`}
          </p>
          {main.map((t: Bag) => <Meter key={t.resource_class} resourceClass={t.resource_class} used={Number(t.used)} capacity={Number(t.capacity)} />)}
          {others > 0 && <p class="quiet small">and {plural(others, "other resource class", "other resource classes")}</p>}
        </>
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

export function Outcome({ d }: { d: Bag }) {
  if (d.refusal) return <Badge tone={d.refusal === "NO_VALID_HOST" ? "warn" : "bad"}>{d.refusal}</Badge>;
  return <Badge tone="good">{d.dry_run ? "dry run" : "placed"}</Badge>;
}

export function DecisionTable({ decisions }: { decisions: Bag[] }) {
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
            <td class="wide">{d.refusal ? d.message : hosts.slice(0, 3).join(", ") + (hosts.length > 3 ? ` and ${hosts.length - 3} more` : "")}</td>
            <td class="right">{seconds(protoSeconds(d.took))}</td>
          </tr>
        );
      })}
    </Table>
  );
}
