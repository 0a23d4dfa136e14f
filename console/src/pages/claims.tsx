import { useEffect, useState } from "preact/hooks";
import { Bag, get, pathOf, Refusal } from "../api";
import { ago, amount, className, plural, short, words } from "../format";
import { useGet, useLive } from "../live";
import { Badge, Card, Empty, Link, Missing, Page, Problem, Table, useNow, Waiting } from "../ui";

const tones = { PENDING: "warn", CONFIRMED: "good", EXPIRED: "plain", RELEASED: "plain", REJECTED: "bad" } as const;

const findingKinds = ["ORPHANED_CLAIM", "UNCLAIMED_INSTANCE", "CLAIMED_ELSEWHERE", "DOUBLED_CLAIM", "UNFINISHED_MOVE", "OVERCOMMITTED", "AMOUNTS_DIFFER", "USAGE_DIFFERS", "HOST_DIFFERS", "STATE_REFUSED", "NOVA_DIFFERS"];

export function ClaimTable({ claims, now }: { claims: Bag[]; now: number }) {
  return (
    <Table label="Claims" head={["Instance", "State", "Host", "Resources", "Project", "Made", "Lease ends", "Decision"]}>
      {claims.map((c) => (
        <tr key={c.claim_id}>
          <td><code title={`claim ${c.claim_id}`}>{c.consumer_uuid}</code></td>
          <td><Badge tone={tones[c.state as keyof typeof tones] ?? "plain"}>{c.state}</Badge>{c.adopted && <> <Badge tone="plain">adopted</Badge></>}{c.moves_claim_id && <> <Badge tone="info">move</Badge></>}</td>
          <td><Link to={`/hosts/${c.host_uuid}`}>{c.service_host || short(c.host_uuid)}</Link></td>
          <td class="wide">{c.allocations.map((a: Bag) => `${amount(a.amount, a.resource_class)} ${className(a.resource_class)}`).join(", ")}</td>
          <td><code>{short(c.project_id)}</code></td>
          <td>{ago(c.created_at, now)}</td>
          <td>{c.expires_at ? ago(c.expires_at, now) : "–"}</td>
          <td>{c.decision_id ? <Link to={`/decisions/${c.decision_id}`}>why there</Link> : "–"}</td>
        </tr>
      ))}
    </Table>
  );
}

export function ClaimsPage() {
  const now = useNow();
  return (
    <Page title="Claims and findings">
      <Findings now={now} />
      <Claims now={now} />
    </Page>
  );
}

function Findings({ now }: { now: number }) {
  const [kind, setKind] = useState("");
  const [repaired, setRepaired] = useState(false);
  const tick = Math.floor(now / 10_000);
  const got = useGet(pathOf("/v1/findings", { kind, repaired }), tick);
  const silent = (got.value?.cells ?? []).filter((c: Bag) => c.error).map((c: Bag) => c.cell);
  return (
    <Card title="Findings" extra={got.value && <span class="quiet small">{plural(got.value.findings.length, "finding")}</span>}>
      <p class="quiet">Where the shard, the tables of its replicas and the reports of hosts do not agree.</p>
      <div class="controls">
        <label>Kind
          <select value={kind} onChange={(e) => setKind(e.currentTarget.value)}>
            <option value="">all</option>
            {findingKinds.map((k) => <option key={k} value={k}>{words(k)}</option>)}
          </select>
        </label>
        <label class="check"><input type="checkbox" checked={repaired} onChange={(e) => setRepaired(e.currentTarget.checked)} /> also those repaired lately</label>
      </div>
      {got.error && <Problem error={got.error} />}
      {!got.value ? !got.error && <Waiting what="the findings" /> : (
        <>
          <Missing cells={silent} what="its findings are" />
          {got.value.findings.length === 0 ? silent.length === 0 && <Empty>Nothing disagrees.</Empty> : (
            <Table label="Findings" head={["Kind", "Cell", "Host", "Instance", "What was seen", "Since", "Repair"]}>
              {got.value.findings.map((f: Bag, i: number) => (
                <tr key={i}>
                  <td>{f.repaired_at ? <Badge tone="good">{words(f.kind)}</Badge> : <Badge tone="warn">{words(f.kind)}</Badge>}</td>
                  <td><Link to={`/cells/${encodeURIComponent(f.cell)}`}>{f.cell}</Link></td>
                  <td>{f.host_uuid ? <Link to={`/hosts/${f.host_uuid}`}>{f.service_host || short(f.host_uuid)}</Link> : "–"}</td>
                  <td><code title={f.consumer_uuid}>{short(f.consumer_uuid)}</code></td>
                  <td class="wide">{f.detail}</td>
                  <td>{ago(f.since, now)}</td>
                  <td class="wide">{f.repaired_at ? `repaired ${ago(f.repaired_at, now)}` : f.repair || "nothing yet"}</td>
                </tr>
              ))}
            </Table>
          )}
          <p class="quiet small">
            {got.value.cells.map((c: Bag) => (c.error ? `${c.cell}: ${c.error}` : !c.looked_at ? `${c.cell}: not compared yet` : `${c.cell}: compared ${c.hosts_compared} of ${c.hosts} hosts ${ago(c.looked_at, now)}${c.cut ? ", more findings than are listed" : ""}`)).join("; ")}
          </p>
        </>
      )}
    </Card>
  );
}

function Claims({ now }: { now: number }) {
  const live = useLive();
  const [filter, setFilter] = useState({ cell: "", project_id: "", instance: "" });
  const [list, setList] = useState<{ filter: Bag; claims: Bag[]; next: string; away: string[]; grown: boolean }>();
  const [error, setError] = useState<Refusal>();
  const read = async (token: string, signal?: AbortSignal) => {
    try {
      let page: Bag;
      if (filter.instance) {
        const one = await get(`/v1/claims/${encodeURIComponent(filter.instance.trim())}`, {}, signal);
        page = { claims: [one.claim, one.other_claim].filter(Boolean), next_page_token: "", unavailable_cells: [] };
      } else page = await get("/v1/claims", { cell: filter.cell, project_id: filter.project_id, page_size: 50, page_token: token }, signal);
      const read = { filter, claims: page.claims, next: page.next_page_token, away: page.unavailable_cells, grown: token !== "" };
      setList((old) => (!token ? read : old?.filter === filter ? { ...read, claims: [...old.claims, ...read.claims] } : old));
      setError(undefined);
    } catch (e) {
      if (signal?.aborted) return;
      setError(e as Refusal);
      if (!token) setList(undefined);
    }
  };
  // Read again every ten seconds, unless More was pressed.
  const tick = Math.floor(now / 10_000);
  useEffect(() => {
    if (list?.grown && list.filter === filter) return;
    const stop = new AbortController();
    const wait = setTimeout(() => void read("", stop.signal), 300);
    return () => {
      clearTimeout(wait);
      stop.abort();
    };
  }, [filter, tick]);
  return (
    <Card title="Claims">
      <div class="controls">
        <label>Cell
          <select value={filter.cell} onChange={(e) => setFilter({ ...filter, cell: e.currentTarget.value })}>
            <option value="">all</option>
            {live.cells?.map((c) => <option key={c.cell}>{c.cell}</option>)}
          </select>
        </label>
        <label>Project <input value={filter.project_id} onInput={(e) => setFilter({ ...filter, project_id: e.currentTarget.value.trim() })} /></label>
        <label>Instance <input class="uuid" value={filter.instance} placeholder="uuid" onInput={(e) => setFilter({ ...filter, instance: e.currentTarget.value })} /></label>
      </div>
      {error && <Problem error={error} />}
      <Missing cells={list?.away} what="its claims are" />
      {!list ? !error && <Waiting what="the claims" /> : list.claims.length ? <ClaimTable claims={list.claims} now={now} /> : !list.away.length && <Empty>No claims.</Empty>}
      {list?.next && <button onClick={() => void read(list.next)}>More</button>}
    </Card>
  );
}
