import { Bag } from "../api";
import { ago, count, plural, words } from "../format";
import { useLive } from "../live";
import { Badge, Card, Facts, Link, Page, Table, useNow, Waiting } from "../ui";
import { gateTone } from "./overview";

const steps = ["LEGACY", "SHADOW", "NATIVE"] as const;

const meanings = {
  LEGACY: "Nova's tables speak for the hosts",
  SHADOW: "Nova's tables still do; reports of agents are compared with them",
  NATIVE: "agents speak for their hosts",
};

export function UpgradePage() {
  const live = useLive();
  const now = useNow();
  const gated = live.cells?.filter((c) => c.gate) ?? [];
  const native = live.cells?.filter((c) => !c.gate) ?? [];
  return (
    <Page title="Upgrade">
      {!live.cells ? <Waiting what="the cells" /> : (
        <>
          <p class="quiet">A cell moves from Nova's own tables to its agents when no live old agent is left. Each move is a row in the cell's shard.</p>
          {gated.map((c) => <GateCard key={c.cell} cell={c} now={now} />)}
          {native.length > 0 && (
            <Card title={gated.length ? "Cells without a gate" : "No cell is under upgrade"}>
              <p>{native.map((c, i) => <span key={c.cell}>{i > 0 && ", "}<Link to={`/cells/${encodeURIComponent(c.cell)}`}>{c.cell}</Link></span>)}: this gateway has no legacy database for {native.length === 1 ? "it" : "them"}, and the {native.length === 1 ? "shard has" : "shards have"} no gate. Agents speak for all hosts.</p>
            </Card>
          )}
        </>
      )}
    </Page>
  );
}

function GateCard({ cell, now }: { cell: Bag; now: number }) {
  const g = cell.gate as Bag;
  const at = steps.indexOf(g.state);
  return (
    <Card title={<Link to={`/cells/${encodeURIComponent(cell.cell)}`}>{cell.cell}</Link>} extra={<span class="badges">{g.pin !== "STATE_UNSPECIFIED" && <Badge tone="warn" title={g.pin_reason}>pinned at {g.pin}</Badge>}<Badge tone={gateTone[g.state as keyof typeof gateTone] ?? "plain"}>{g.state}</Badge></span>}>
      <ol class="gate" aria-label={`The gate of ${cell.cell} is ${g.state}`}>
        {steps.map((s, i) => (
          <li key={s} class={i < at ? "past" : i === at ? "here" : ""} aria-current={i === at ? "step" : undefined}>
            <strong>{s}</strong> <span class="quiet small">{meanings[s]}</span>
          </li>
        ))}
      </ol>
      <p>{g.reason}{g.since && <span class="quiet"> ({ago(g.since, now)}, move {g.epoch})</span>}</p>
      {g.pin_reason && <p>Pinned: {g.pin_reason}</p>}
      {g.waits_for.length > 0 && <>
        <h3>It waits for</h3>
        <ul>{g.waits_for.map((w: string) => <li key={w}>{w}</li>)}</ul>
      </>}
      <Facts rows={[
        ["Registered by agents", <>{count(g.registered)} of {count(g.hosts)} hosts <progress aria-label="Hosts registered by agents" max={Math.max(1, g.hosts)} value={g.registered} /></>],
        ["Live nova-compute services", count(g.services)],
        ["Least service version", g.required_version ? `${g.min_version}, required ${g.required_version}` : String(g.min_version)],
        ["Hosts behind", count(g.lagging_hosts)],
        ["Hosts that differ", g.state === "SHADOW" ? count(g.differing_hosts) : undefined],
        ["Rows imported", ago(g.rows_at, now)],
      ]} />
      {g.lagging.length > 0 && <>
        <h3>Hosts behind{g.lagging_hosts > g.lagging.length && <span class="quiet"> (the first {g.lagging.length} of {count(g.lagging_hosts)})</span>}</h3>
        <Table label={`Hosts of ${cell.cell} that are behind`} head={["Host", { text: "Service version", right: true }, { text: "Agent version", right: true }, "Last up", "Why"]}>
          {g.lagging.map((h: Bag) => (
            <tr key={h.host}><td>{h.host}</td><td class="right">{h.service_version || "none"}</td><td class="right">{h.agent_version || "no agent"}</td><td>{ago(h.last_seen, now)}</td><td class="wide">{h.reason}</td></tr>
          ))}
        </Table>
      </>}
      {g.host_differences.length > 0 && <>
        <h3>Differences of agents and Nova{g.differing_hosts > g.host_differences.length && <span class="quiet"> (the first {g.host_differences.length} of {count(g.differing_hosts)})</span>}</h3>
        <Table label={`Differences in ${cell.cell}`} head={["Host", "What differs", "How"]}>
          {g.host_differences.map((d: Bag, i: number) => <tr key={i}><td>{d.host}</td><td>{words(d.kind)}</td><td class="wide">{d.detail}</td></tr>)}
        </Table>
      </>}
      {g.readers.length > 0 && (
        <details>
          <summary>{plural(g.readers.length, "gateway")} that read{g.readers.length === 1 ? "s" : ""} Nova's tables</summary>
          <Table label="Gateways that read Nova's tables" head={["Gateway", "Read to", "Behind", "Imports", "Problem"]}>
            {g.readers.map((r: Bag) => <tr key={r.gateway}><td>{r.gateway}</td><td>{ago(r.read_to, now)}</td><td>{r.lag ?? "–"}</td><td>{r.imports ? "yes" : "no"}</td><td class="wide">{r.unreadable || "–"}</td></tr>)}
          </Table>
        </details>
      )}
    </Card>
  );
}
