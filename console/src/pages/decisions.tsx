import { useEffect, useState } from "preact/hooks";
import { Bag, get, Refusal } from "../api";
import { ago, count, percent, protoSeconds, seconds, short } from "../format";
import { useGet, useLive } from "../live";
import { Badge, Card, Empty, Facts, Funnel, Link, Missing, Page, Problem, Table, useNow, Waiting } from "../ui";
import { Misses } from "./nearest";
import { DecisionTable, Outcome, rejectsOf } from "./overview";
import { Weights } from "./weights";

// reasons are some that refusals are searched by; a filter or a trait does as well.
const reasons = ["NO_VALID_HOST", "CONTENDED", "CELL_UNAVAILABLE", "ALREADY_EXISTS", "VCPU", "MEMORY_MB", "DISK_GB", "TraitFilter", "AvailabilityZoneFilter", "AggregateFilter"];

// utc is the local time of an input as the API reads it; "" for none.
const utc = (local: string) => (local ? new Date(local).toISOString() : "");

export function DecisionsPage({ query }: { query: URLSearchParams }) {
  const live = useLive();
  const [filter, setFilter] = useState({ instance_uuid: query.get("instance_uuid") ?? "", project_id: "", request_id: "", trace_id: query.get("trace_id") ?? "", reason: query.get("reason") ?? "", host: query.get("host") ?? "", host_cell: "", cell: "", since: "", until: "", outcome: query.get("outcome") ?? "" });
  const [followed, setFollowed] = useState(true);
  const [list, setList] = useState<{ filter: Bag; decisions: Bag[]; next: string; away: string[] }>();
  const [error, setError] = useState<Refusal>();
  const read = async (token: string, signal?: AbortSignal) => {
    try {
      const page = await get("/v1/decisions", { ...filter, since: utc(filter.since), until: utc(filter.until), page_size: 50, page_token: token }, signal);
      const read = { filter, decisions: page.decisions, next: page.next_page_token, away: page.unavailable_cells };
      setList((old) => (!token ? read : old?.filter === filter ? { ...read, decisions: [...old.decisions, ...read.decisions] } : old));
      setError(undefined);
    } catch (e) {
      if (!signal?.aborted) setError(e as Refusal);
    }
  };
  useEffect(() => {
    if (!followed && list?.filter === filter) return;
    const stop = new AbortController();
    const wait = setTimeout(() => void read("", stop.signal), 200);
    return () => {
      clearTimeout(wait);
      stop.abort();
    };
  }, [filter, followed, live.newest + (live.cells ?? []).filter((c) => !c.available).map((c) => c.cell)]);
  return (
    <Page title="Decisions" actions={<button aria-pressed={followed} onClick={() => setFollowed(!followed)}>{followed ? "❚❚ Pause" : "▶ Follow"}</button>}>
      <Card>
        <div class="controls">
          <label>Instance <input class="uuid" placeholder="uuid" value={filter.instance_uuid} onInput={(e) => setFilter({ ...filter, instance_uuid: e.currentTarget.value.trim() })} /></label>
          <label>Project <input value={filter.project_id} onInput={(e) => setFilter({ ...filter, project_id: e.currentTarget.value.trim() })} /></label>
          <label>Request id <input value={filter.request_id} onInput={(e) => setFilter({ ...filter, request_id: e.currentTarget.value.trim() })} /></label>
          <label>Trace <input placeholder="32 hex digits" value={filter.trace_id} onInput={(e) => setFilter({ ...filter, trace_id: e.currentTarget.value.trim() })} /></label>
          <label>Outcome
            <select value={filter.outcome} onChange={(e) => setFilter({ ...filter, outcome: e.currentTarget.value })}>
              <option value="">any</option>
              <option value="PLACED">placed</option>
              <option value="DRY_RUN">dry run</option>
              <option value="REFUSED">refused</option>
            </select>
          </label>
          <label>Host <input placeholder="name or uuid" value={filter.host} onInput={(e) => setFilter({ ...filter, host: e.currentTarget.value.trim() })} /></label>
          <label>In cell
            <select value={filter.host_cell} onChange={(e) => setFilter({ ...filter, host_cell: e.currentTarget.value })}>
              <option value="">any cell</option>
              {live.cells?.map((c) => <option key={c.cell}>{c.cell}</option>)}
            </select>
          </label>
          <label>Reason <input placeholder="kind, filter, class" list="reasons" value={filter.reason} onInput={(e) => setFilter({ ...filter, reason: e.currentTarget.value.trim() })} /></label>
          <datalist id="reasons">{reasons.map((r) => <option key={r} value={r} />)}</datalist>
          <label>From <input type="datetime-local" value={filter.since} onInput={(e) => setFilter({ ...filter, since: e.currentTarget.value })} /></label>
          <label>Until <input type="datetime-local" value={filter.until} onInput={(e) => setFilter({ ...filter, until: e.currentTarget.value })} /></label>
          <label>Kept by
            <select value={filter.cell} onChange={(e) => setFilter({ ...filter, cell: e.currentTarget.value })}>
              <option value="">any cell</option>
              {live.cells?.map((c) => <option key={c.cell}>{c.cell}</option>)}
            </select>
          </label>
        </div>
        {error && <Problem error={error} />}
        <Missing cells={list?.away} what="the decisions that it keeps are" />
        {list ? <DecisionTable decisions={list.decisions} reason={filter.reason} /> : !error && <Waiting what="the decisions" />}
        {list?.next && <button onClick={() => { setFollowed(false); void read(list.next); }}>Older</button>}
      </Card>
    </Page>
  );
}

export function DecisionPage({ id }: { id: string }) {
  const now = useNow();
  // Read again for the states of its claims.
  const got = useGet(`/v1/decisions/${encodeURIComponent(id)}`, Math.floor(now / 10_000));
  const d = got.value?.decision as Bag | undefined;
  if (!d) return <Page title="Decision">{got.error ? <Problem error={got.error} /> : <Waiting what="the decision" />}</Page>;
  const searched = d.cells.filter((c: Bag) => c.outcome === "SEARCHED");
  const hosts = searched.reduce((n: number, c: Bag) => n + c.hosts, 0);
  const passed = searched.reduce((n: number, c: Bag) => n + c.passed, 0);
  const claims = new Map<string, Bag>(d.claims.map((c: Bag) => [c.instance_uuid, c]));
  return (
    <Page title={d.refusal ? "A refusal" : "A decision"} actions={<span class="badges"><Outcome d={d} />{d.partial && <Badge tone="warn">partial</Badge>}{!d.refusal && (d.exact ? <Badge tone="good">exact</Badge> : <Badge tone="warn">not exact</Badge>)}</span>}>
      {got.error && <Problem error={got.error} />}
      {d.message && <p class="message">{d.message}</p>}
      <Card>
        <Facts rows={[
          ["Decided", `${new Date(d.decided_at).toLocaleString("en-GB")}, ${ago(d.decided_at, now)}`],
          ["Operation", d.operation === "OPERATION_UNSPECIFIED" ? "BUILD" : d.operation],
          ["Took", `${seconds(protoSeconds(d.took))}, ${d.rounds} ${d.rounds === 1 ? "round" : "rounds"}${d.lost_races ? `, ${d.lost_races} lost races` : ""}`],
          ["Project", d.project_id && <code>{d.project_id}</code>],
          ["Request", d.request_id && <code>{d.request_id}</code>],
          ["Decision", <code>{d.decision_id}</code>],
          ["Trace", d.trace_id && <code>{d.trace_id}</code>],
          ["Fields read over", d.ignored_fields.join(", ")],
        ]} />
      </Card>
      {hosts > 0 && <Card title="How the hosts became fewer"><Funnel hosts={hosts} passed={passed} rejects={rejectsOf(searched)} /></Card>}
      {d.no_valid_host && (d.no_valid_host.smallest_change || d.no_valid_host.smallest_operator_change || d.no_valid_host.nearest?.length > 0) && (
        <Card title="What would fit"><Misses of={d.no_valid_host} /></Card>
      )}
      {d.destinations.length > 0 && (
        <Card title="Where the instances went">
          <Table label="Destinations" head={["Instance", "Host", "Cell", "Zone", { text: "Weight", right: true }, "Claim", "Alternates"]}>
            {d.destinations.map((x: Bag) => {
              const claim = claims.get(x.instance_uuid);
              return (
                <tr key={x.instance_uuid}>
                  <td><code title={x.instance_uuid}>{short(x.instance_uuid)}</code></td>
                  <td><Link to={`/hosts/${x.selected.compute_node_uuid}`}>{x.selected.service_host}</Link></td>
                  <td><Link to={`/cells/${encodeURIComponent(x.selected.cell)}`}>{x.selected.cell}</Link></td>
                  <td>{x.selected.availability_zone}</td>
                  <td class="right">{x.selected.weight.toFixed(4)}</td>
                  <td>{claim ? <Badge tone={claim.state === "CONFIRMED" ? "good" : claim.state === "PENDING" ? "warn" : "plain"}>{claim.state}</Badge> : d.dry_run ? "dry run" : <span class="quiet">no live claim</span>}</td>
                  <td class="wide">{x.alternates.length ? x.alternates.map((a: Bag) => `${a.service_host} (${a.weight.toFixed(4)})`).join(", ") : "–"}</td>
                </tr>
              );
            })}
          </Table>
        </Card>
      )}
      {d.ranked?.length > 0 && <Card title={`The best hosts${d.instance_uuids.length > 1 ? " for the first instance" : ""}, by their weights when it was decided`}><Weights ranked={d.ranked} chosen={d.destinations[0]?.selected.compute_node_uuid} /></Card>}
      <Card title="Cells"><CellReports cells={d.cells} /></Card>
      {d.rejected_claims.length > 0 && (
        <Card title="Hosts that rejected the claim">
          {d.rejected_claims.map((r: Bag) => <p key={r.claim_id}><Link to={`/hosts/${r.host_uuid}`}>{r.service_host}</Link> {r.reason}: {r.message}</p>)}
        </Card>
      )}
    </Page>
  );
}

const outcomeTone = { SEARCHED: "good", SKIPPED: "plain", UNAVAILABLE: "bad" } as const;

export function CellReports({ cells }: { cells: Bag[] }) {
  if (cells.length === 0) return <Empty>No cell was asked.</Empty>;
  return (
    <Table label="What each cell answered" head={["Cell", "Outcome", { text: "Hosts", right: true }, { text: "Passed", right: true }, "Reason, or first filters that rejected"]}>
      {cells.map((c) => (
        <tr key={c.cell}>
          <td><Link to={`/cells/${encodeURIComponent(c.cell)}`}>{c.cell}</Link>{c.source === "LEGACY" && <> <Badge tone="warn">legacy</Badge></>}</td>
          <td><Badge tone={outcomeTone[c.outcome as keyof typeof outcomeTone] ?? "plain"}>{c.outcome.toLowerCase()}</Badge></td>
          <td class="right">{count(c.hosts)}</td>
          <td class="right">{count(c.passed)} <span class="quiet">{c.hosts ? percent(c.passed / c.hosts) : ""}</span></td>
          <td class="wide">{c.reason || c.rejects.map((r: Bag) => `${count(r.hosts)} ${r.filter}${r.detail ? ` (${r.detail})` : ""}`).join(", ") || "–"}</td>
        </tr>
      ))}
    </Table>
  );
}
