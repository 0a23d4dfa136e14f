import { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Bag, get, Refusal } from "../api";
import { amount, className, clock, count, percent, plural } from "../format";
import { HeatMap, Square } from "../heatmap";
import { useLive } from "../live";
import { Badge, Card, Facts, LastRead, Link, Meter, Page, Problem, Table, Waiting } from "../ui";
import { gateTone, hasNumbers, LastKnown } from "./overview";

// Usage is what a host has and uses of each resource class, over all of its providers.
export type Usage = Record<string, { used: number; capacity: number }>;

export function usageOf(host: Bag): Usage {
  const out: Usage = {};
  for (const i of host.inventories as Bag[]) {
    const u = (out[i.resource_class] ??= { used: 0, capacity: 0 });
    u.used += i.used + i.unaccounted;
    u.capacity += Math.floor((i.total - i.reserved) * i.allocation_ratio);
  }
  return out;
}

// stateOf says in a word why a host takes no instances; empty when it does.
export function stateOf(host: Bag): "" | "down" | "out of service" {
  const admin = host.admin?.state ?? "STATE_UNSPECIFIED";
  if (!host.enabled || (admin !== "ENABLED" && admin !== "STATE_UNSPECIFIED")) return "out of service";
  if (!host.up) return "down";
  return host.admin?.nova ? "out of service" : "";
}

interface HostRow {
  uuid: string;
  name: string;
  zone: string;
  state: ReturnType<typeof stateOf>;
  instances: number;
  usage: Usage;
}

interface Read {
  hosts: HostRow[];
  done: boolean;
  at: number;
  error?: Refusal;
}

// useHosts reads all hosts of a cell, page by page, and again after a rest of ten times as long as
// that took, at least 15 s: a large cell is read more rarely.
function useHosts(cell: string): Read & { again: () => void } {
  const [read, set] = useState<Read>({ hosts: [], done: false, at: 0 });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    let timer = 0;
    const all = async (first: boolean) => {
      const begin = Date.now();
      const hosts: HostRow[] = [];
      try {
        for (let token = ""; ; ) {
          const page = await get("/v1/hosts", { cell, page_size: 1000, page_token: token }, stop.signal);
          if (page.unavailable_cells.length) throw new Refusal(0, "CELL_UNAVAILABLE", `${page.unavailable_cells.join(", ")} does not answer: its hosts are not known now.`);
          for (const h of page.hosts) hosts.push({ uuid: h.host_uuid, name: h.service_host, zone: h.availability_zone, state: stateOf(h), instances: h.instances, usage: usageOf(h) });
          token = page.next_page_token;
          // The first time hosts are drawn as they come, later all at once.
          if (first && token) set({ hosts: hosts.slice(), done: false, at: begin });
          if (!token) break;
        }
        set({ hosts, done: true, at: Date.now() });
      } catch (error) {
        if (stop.signal.aborted) return;
        set((old) => ({ ...old, done: true, error: error as Refusal }));
      }
      timer = window.setTimeout(() => all(false), Math.max(15_000, 10 * (Date.now() - begin)));
    };
    set((old) => (turn ? old : { hosts: [], done: false, at: 0 }));
    void all(true);
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [cell, turn]);
  return { ...read, again: () => setTurn((t) => t + 1) };
}

export function CellPage({ name }: { name: string }) {
  const live = useLive();
  const cell = live.cells?.find((c) => c.cell === name);
  if (live.cells && !cell) return <Page title={name}><p>This gateway knows no cell “{name}”. <Link to="/">Overview</Link></p></Page>;
  return (
    <Page title={`Cell ${name}`} actions={cell && <CellBadges cell={cell} />}>
      {cell && <CellFacts cell={cell} />}
      <Hosts cell={name} expected={cell?.hosts} key={name} />
    </Page>
  );
}

const CellBadges = ({ cell }: { cell: Bag }) => (
  <span class="badges">
    {cell.gate && <Link to="/upgrade"><Badge tone={gateTone[cell.gate.state as keyof typeof gateTone] ?? "plain"}>{cell.gate.state}</Badge></Link>}
    {cell.available ? <Badge tone="good">available</Badge> : <Badge tone="bad">not available</Badge>}
  </span>
);

function CellFacts({ cell }: { cell: Bag }) {
  return (
    <div class="grid two">
      <Card title={cell.answered_at ? "Was in use" : "In use"}>
        {cell.reason && <p class="reason">{cell.reason}</p>}
        <LastKnown cell={cell} />
        <div class={cell.answered_at ? "old" : ""}>{cell.resources.map((r: Bag) => <Meter key={r.resource_class} resourceClass={r.resource_class} used={Number(r.used)} capacity={Number(r.capacity)} />)}</div>
      </Card>
      <Card title={cell.answered_at ? "Facts, last known" : "Facts"}>
        <Facts rows={[
          ...(hasNumbers(cell) ? numbersOf(cell) : []),
          ["Table version", cell.table_version && <code>{cell.table_version}</code>],
          ["Uuid", <code>{cell.cell_uuid}</code>],
        ]} />
        <h3>Replicas</h3>
        {cell.replica_states.map((s: Bag) => (
          <p key={s.address} class="small">
            <code>{s.address}</code> <Badge tone={s.breaker === "CLOSED" ? "good" : "bad"}>breaker {s.breaker.toLowerCase().replace("_", " ")}</Badge>
            {s.loading && <> <Badge tone="warn">loading</Badge></>} {s.last_error && <span class="quiet">last error: {s.last_error}</span>}
          </p>
        ))}
      </Card>
    </div>
  );
}

// numbersOf are the rows of what a cell gave.
const numbersOf = (cell: Bag): [string, ComponentChildren][] => [
  ["Hosts up", `${count(cell.hosts_up)} of ${count(cell.hosts)}`],
  ["Claims", `${count(cell.claims_confirmed)} confirmed, ${count(cell.claims_pending)} pending`],
  ["Out of service", outOfService(cell)],
  ["Down", plural(cell.hosts - cell.hosts_up - cell.hosts_withheld - cell.hosts_disabled, "host")],
  ["Imported from Nova's tables", plural(cell.hosts_imported, "host")],
  ["Zones", cell.availability_zones.join(", ")],
  ["Most free on one host", cell.resources.map((r: Bag) => `${amount(r.largest_free, r.resource_class)} ${className(r.resource_class)}`).join(", ")],
];

// outOfService says how many hosts take nothing new, and who says so.
export function outOfService(cell: Bag): string {
  const by = [[cell.hosts_withheld, "by operators"], [cell.hosts_disabled, "by their own report"]].filter(([n]) => n > 0);
  return plural(cell.hosts_withheld + cell.hosts_disabled, "host") + (by.length ? `: ${by.map(([n, who]) => `${count(n as number)} ${who}`).join(", ")}` : "");
}

const fullest = "";

function Hosts({ cell, expected }: { cell: string; expected?: number }) {
  const { hosts, done, at, error, again } = useHosts(cell);
  const [by, setBy] = useState(fullest);
  const [search, setSearch] = useState("");
  const [zone, setZone] = useState("");
  const [over, setOver] = useState<number | undefined>();
  const top = useRef<HTMLDivElement>(null);
  const classes = useMemo(() => [...new Set(hosts.flatMap((h) => Object.keys(h.usage)))].sort(), [hosts]);
  const zones = useMemo(() => [...new Set(hosts.map((h) => h.zone))].sort(), [hosts]);
  const shown = useMemo(() => hosts.filter((h) => (!search || h.name.toLowerCase().includes(search.toLowerCase())) && (!zone || h.zone === zone)), [hosts, search, zone]);
  const share = (h: HostRow) => {
    const parts = (by ? [h.usage[by]] : ["VCPU", "MEMORY_MB", "DISK_GB", "PCPU"].map((c) => h.usage[c])).filter((u) => u && u.capacity > 0);
    return parts.length ? Math.max(...parts.map((u) => u!.used / u!.capacity)) : undefined;
  };
  const squares: Square[] = useMemo(() => shown.map((h) => ({ share: share(h), state: h.state })), [shown, by]);
  const picked = over === undefined ? undefined : shown[over];
  const list = useMemo(() => shown.map((h) => ({ h, s: share(h) ?? -1 })).sort((a, b) => b.s - a.s).slice(0, 20), [shown, by]);
  const states = useMemo(() => ({ down: shown.filter((h) => h.state === "down").length, out: shown.filter((h) => h.state === "out of service").length }), [shown]);
  return (
    <Card title="Hosts" extra={<span class="quiet small">{!done ? `${count(hosts.length)}${expected ? " of " + count(expected) : ""} read …` : at ? `read at ${clock(at)}` : ""} <button onClick={again}>Read again</button></span>}>
      {error && <Problem error={error} />}
      {error && hosts.length > 0 && <LastRead at={at} what="What is below" />}
      {!(error && hosts.length === 0) && <div class="controls" ref={top}>
        <label>Colour by
          <select value={by} onChange={(e) => setBy(e.currentTarget.value)}>
            <option value={fullest}>the fullest of vCPU, memory, disk</option>
            {classes.map((c) => <option key={c} value={c}>{className(c)}</option>)}
          </select>
        </label>
        <label>Name contains <input type="search" value={search} onInput={(e) => setSearch(e.currentTarget.value)} /></label>
        <label>Zone
          <select value={zone} onChange={(e) => setZone(e.currentTarget.value)}>
            <option value="">all</option>
            {zones.map((z) => <option key={z}>{z}</option>)}
          </select>
        </label>
        <Legend />
      </div>}
      {hosts.length === 0 ? !error && (done ? <p class="empty">This cell has no hosts.</p> : <Waiting what="the hosts" />) : (
        <HeatMap
          squares={squares}
          label={`Heat map of ${plural(shown.length, "host")}: ${states.down} down, ${states.out} out of service. Arrow keys move, Enter opens a host.`}
          over={over}
          onOver={setOver}
          onOpen={(i) => { location.hash = `/hosts/${shown[i].uuid}`; }}
        />
      )}
      <p class="picked" role="status">
        {picked ? <>
          <strong>{picked.name}</strong> {picked.zone}, {plural(picked.instances, "instance")}{picked.state && <>, <Badge tone={picked.state === "down" ? "bad" : "plain"}>{picked.state}</Badge></>}
          {Object.entries(picked.usage).map(([c, u]) => <span key={c} class="quiet"> · {className(c)} {percent(u.capacity ? u.used / u.capacity : 0)} of {amount(u.capacity, c)}</span>)}
        </> : hosts.length > 0 && <span class="quiet">{plural(shown.length, "host")}. Point at a square, or move to it with the arrow keys, to see which host it is.</span>}
      </p>
      {list.length > 0 && <>
        <h3>Fullest hosts</h3>
        <Table label="Fullest hosts" head={["Host", "Zone", "State", { text: "Instances", right: true }, ...["VCPU", "MEMORY_MB", "DISK_GB"].map((c) => ({ text: className(c), right: true }))]}>
          {list.map(({ h }) => (
            <tr key={h.uuid}>
              <td><Link to={`/hosts/${h.uuid}`}>{h.name}</Link></td>
              <td>{h.zone}</td>
              <td>{h.state ? <Badge tone={h.state === "down" ? "bad" : "plain"}>{h.state}</Badge> : <Badge tone="good">up</Badge>}</td>
              <td class="right">{h.instances}</td>
              {["VCPU", "MEMORY_MB", "DISK_GB"].map((c) => <td class="right" key={c}>{h.usage[c] ? <>{percent(h.usage[c].used / h.usage[c].capacity)} <span class="quiet">of {amount(h.usage[c].capacity, c)}</span></> : "–"}</td>)}
            </tr>
          ))}
        </Table>
      </>}
    </Card>
  );
}

const Legend = () => (
  <div class="legend" aria-hidden="true">
    <span>free</span><span class="ramp" /><span>full</span>
    <span class="key over" /><span>above 90 %</span>
    <span class="key down" /><span>down</span>
    <span class="key out" /><span>out of service</span>
  </div>
);
