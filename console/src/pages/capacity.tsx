import { useState } from "preact/hooks";
import { Bag, post, Refusal } from "../api";
import { className, count, plural, protoSeconds, seconds } from "../format";
import { Badge, Card, Facts, Funnel, Link, Page, Problem, Table } from "../ui";
import { DrainPlan } from "./drain";

interface Shape {
  name: string;
  vcpus: number;
  memory_gb: number;
  root_gb: number;
  traits: string;
  share: number;
}

interface WhatIf {
  drained: string;
  ratioClass: string;
  ratio: string;
  like: string;
  added: number;
}

const noChange: WhatIf = { drained: "", ratioClass: "VCPU", ratio: "", like: "", added: 0 };

const small: Shape = { name: "small", vcpus: 2, memory_gb: 4, root_gb: 20, traits: "", share: 1 };
const large: Shape = { name: "large", vcpus: 16, memory_gb: 64, root_gb: 80, traits: "", share: 1 };

// The gateway takes names and uuids of hosts.
function changesOf(w: WhatIf): Bag | undefined {
  const out: Bag = {};
  const drained = w.drained.split(/[\s,]+/).filter(Boolean);
  if (drained.length) out.drained_hosts = [...new Set(drained)];
  if (w.ratio) out.ratios = [{ resource_class: w.ratioClass, allocation_ratio: Number(w.ratio) }];
  if (w.added > 0 && !w.like.trim()) throw new Refusal(0, "INVALID_REQUEST", "Name a host that the added hosts are like.");
  if (w.added > 0) out.added_hosts = [{ like_host_uuid: w.like.trim(), count: w.added }];
  return Object.keys(out).length ? out : undefined;
}

export function CapacityPage() {
  const [shapes, setShapes] = useState([small, large]);
  const [mode, setMode] = useState("EACH");
  const [whatIf, setWhatIf] = useState(noChange);
  const [answer, setAnswer] = useState<{ now: Bag; then?: Bag }>();
  const [error, setError] = useState<Error>();
  const [busy, setBusy] = useState(false);
  const set = (i: number, change: Partial<Shape>) => setShapes(shapes.map((s, k) => (k === i ? { ...s, ...change } : s)));
  const ask = async () => {
    setBusy(true);
    setError(undefined);
    try {
      const body: Bag = {
        mode,
        shapes: shapes.map((s) => ({
          name: s.name,
          share: mode === "MIX" ? s.share : 0,
          request_spec: { flavor: { vcpus: s.vcpus, memory_mb: Math.round(s.memory_gb * 1024), root_gb: s.root_gb }, required_traits: s.traits.split(/[\s,]+/).filter(Boolean) },
        })),
      };
      const changes = changesOf(whatIf);
      const [now, then] = await Promise.all([post("/v1/estimate_capacity", body), changes ? post("/v1/estimate_capacity", { ...body, changes }) : undefined]);
      setAnswer({ now, then });
    } catch (e) {
      setAnswer(undefined);
      setError(e as Error);
    }
    setBusy(false);
  };
  return (
    <Page title="Capacity">
      <p class="quiet">How many more instances fit. They are placed one after the other on a copy of the cells' tables; nothing is claimed.</p>
      <form onSubmit={(e) => { e.preventDefault(); void ask(); }}>
        <Card title="Flavors">
          <div class="scroll" tabIndex={0} role="region" aria-label="Flavors">
            <table>
              <thead><tr><th scope="col">Name</th><th scope="col">vCPUs</th><th scope="col">Memory, GiB</th><th scope="col">Root disk, GiB</th><th scope="col">Required traits</th>{mode === "MIX" && <th scope="col">In each turn</th>}<th scope="col"><span class="hidden">Remove</span></th></tr></thead>
              <tbody>
                {shapes.map((s, i) => (
                  <tr key={i}>
                    <td><input aria-label={`Name of flavor ${i + 1}`} value={s.name} onInput={(e) => set(i, { name: e.currentTarget.value })} /></td>
                    <td><Amount label={`vCPUs of ${s.name}`} value={s.vcpus} set={(vcpus) => set(i, { vcpus })} /></td>
                    <td><Amount label={`Memory of ${s.name}, GiB`} value={s.memory_gb} set={(memory_gb) => set(i, { memory_gb })} /></td>
                    <td><Amount label={`Root disk of ${s.name}, GiB`} value={s.root_gb} set={(root_gb) => set(i, { root_gb })} /></td>
                    <td><input aria-label={`Required traits of ${s.name}`} value={s.traits} onInput={(e) => set(i, { traits: e.currentTarget.value })} /></td>
                    {mode === "MIX" && <td><Amount label={`Instances of ${s.name} in each turn`} value={s.share} set={(share) => set(i, { share })} /></td>}
                    <td>{shapes.length > 1 && <button type="button" class="quiet-button" aria-label={`Remove ${s.name}`} onClick={() => setShapes(shapes.filter((_, k) => k !== i))}>✕</button>}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          <div class="controls">
            <button type="button" disabled={shapes.length >= 16} onClick={() => setShapes([...shapes, { ...small, name: `flavor${shapes.length + 1}` }])}>Add a flavor</button>
            <label>How they share the hosts
              <select value={mode} onChange={(e) => setMode(e.currentTarget.value)}>
                <option value="EACH">each alone</option>
                <option value="MIX">in turn, until one finds no host</option>
              </select>
            </label>
          </div>
        </Card>
        <Card title="What if">
          <div class="controls">
            <label>these hosts took no more instances <input class="uuid" placeholder="names or uuids" value={whatIf.drained} onInput={(e) => setWhatIf({ ...whatIf, drained: e.currentTarget.value })} /></label>
            <label>the allocation ratio of
              <span><select aria-label="Resource class of the ratio" value={whatIf.ratioClass} onChange={(e) => setWhatIf({ ...whatIf, ratioClass: e.currentTarget.value })}>{["VCPU", "MEMORY_MB", "DISK_GB"].map((c) => <option key={c} value={c}>{className(c)}</option>)}</select>{" "}
              were <input class="narrow" type="number" step="any" min="0" aria-label="Allocation ratio" value={whatIf.ratio} onInput={(e) => setWhatIf({ ...whatIf, ratio: e.currentTarget.value })} /></span>
            </label>
            <label>hosts were added
              <span><input class="narrow" type="number" min={0} max={10000} aria-label="How many hosts are added" value={whatIf.added} onInput={(e) => setWhatIf({ ...whatIf, added: Number(e.currentTarget.value) })} /> like <input placeholder="name or uuid" aria-label="A host like the added ones" value={whatIf.like} onInput={(e) => setWhatIf({ ...whatIf, like: e.currentTarget.value })} /></span>
            </label>
          </div>
        </Card>
        <p><button class="primary" disabled={busy}>{busy ? "Placing …" : "Estimate"}</button></p>
      </form>
      <div aria-live="polite">
        {error && <Problem error={error} />}
        {answer && <Answer {...answer} />}
      </div>
      <DrainPlan />
    </Page>
  );
}

const Amount = ({ label, value, set }: { label: string; value: number; set: (v: number) => void }) => (
  <input class="narrow" type="number" min={0} aria-label={label} value={value} onInput={(e) => set(Math.max(0, Number(e.currentTarget.value)))} />
);

const ends: Record<string, string> = { FULL: "the next one finds no host", LIMIT: "as many as were asked for; more may fit", TIME: "time was up; more may fit", OTHER_FULL: "another flavor of the mix finds no host" };

function Answer({ now, then }: { now: Bag; then?: Bag }) {
  const shown = then ?? now;
  const most = Math.max(1, ...[now, then].flatMap((a) => a?.shapes.map((s: Bag) => s.instances) ?? []));
  return (
    <>
      <Card title={then ? "What would fit" : "What fits"} extra={<span class="badges">{shown.partial && <Badge tone="warn">partial</Badge>}{shown.exact ? <Badge tone="good">exact</Badge> : <Badge tone="warn">not exact</Badge>}<span class="quiet small">placed in {seconds(protoSeconds(shown.took))}</span></span>}>
        <ul class="weight-legend">{shown.cells.map((c: Bag, i: number) => <li key={c.cell}><span style={{ background: `var(--c${i % 8})` }} />{c.cell}</li>)}</ul>
        <ol class="weights">
          {shown.shapes.map((s: Bag, i: number) => {
            const before = now.shapes[i].instances;
            return (
              <li key={i}>
                <span class="weight-name"><strong>{s.name}</strong> <span class="quiet small">{ends[s.end] ?? s.end}</span></span>
                <span class="weight-bar" role="img" aria-label={s.cells.map((c: Bag) => `${c.cell} ${count(c.instances)}`).join(", ")}>
                  {s.cells.map((c: Bag) => c.instances > 0 && <span key={c.cell} title={`${c.cell}: ${count(c.instances)} on ${plural(c.hosts_used, "host")}`} style={{ width: `${(100 * c.instances) / most}%`, background: `var(--c${shown.cells.findIndex((x: Bag) => x.cell === c.cell) % 8})` }} />)}
                </span>
                <span class="weight-sum"><strong>{count(s.instances)}</strong>{then && <div class="quiet small">{s.instances >= before ? "+" : "−"}{count(Math.abs(s.instances - before))}</div>}</span>
              </li>
            );
          })}
        </ol>
        <Table label="What fits in each cell" head={["Flavor", ...shown.cells.map((c: Bag) => ({ text: c.cell, right: true }))]}>
          {shown.shapes.map((s: Bag, i: number) => (
            <tr key={i}><td>{s.name}</td>{shown.cells.map((c: Bag) => {
              const x = s.cells.find((y: Bag) => y.cell === c.cell);
              return <td class="right" key={c.cell}>{x ? <>{count(x.instances)}{x.limited && "+"} <span class="quiet">on {plural(x.hosts_used, "host")}</span></> : "–"}</td>;
            })}</tr>
          ))}
        </Table>
        {shown.cells.filter((c: Bag) => c.outcome !== "SEARCHED").map((c: Bag) => <div class="problem" key={c.cell}><Link to={`/cells/${encodeURIComponent(c.cell)}`}>{c.cell}</Link> {c.outcome.toLowerCase()}: {c.reason}</div>)}
      </Card>
      {shown.shapes.filter((s: Bag) => s.end === "FULL").map((s: Bag, i: number) => (
        <Card key={i} title={`Why no more of ${s.name} fit`}>
          <p>{s.message}</p>
          <Funnel hosts={s.hosts} rejects={s.rejects} passed={0} />
        </Card>
      ))}
      <Card title="What was copied">
        <Facts rows={shown.cells.map((c: Bag) => [c.cell, <>{plural(c.hosts, "host")}, table <code>{c.table_version}</code></>])} />
      </Card>
    </>
  );
}
