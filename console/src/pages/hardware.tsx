// The NUMA cells and devices of a host, and which instances took of them since its last report.
import { Bag } from "../api";
import { amount, count, plural } from "../format";
import { Card, Link, Table } from "../ui";

const mib = (n: number | string) => amount(n, "MEMORY_MB");

// pageSize writes a size of pages in KiB.
function pageSize(kb: number): string {
  if (kb >= 1 << 20 && kb % (1 << 20) === 0) return `${kb >> 20} GiB`;
  return kb >= 1024 && kb % 1024 === 0 ? `${kb / 1024} MiB` : `${kb} KiB`;
}

const free = (p: Bag) => Number(p.total) - Number(p.used) - Number(p.reserved);

// spaced lets a line break between what devices say of themselves.
const spaced = (pool: string) => pool.replaceAll(",", ", ");

function taken(n: Bag): string {
  const parts = [];
  if (n.pinned_cpus) parts.push(`CPUs ${n.pinned_cpus}`);
  if (n.shared_cpus > 0) parts.push(plural(n.shared_cpus, "shared CPU"));
  parts.push(mib(n.memory_mb) + (Number(n.page_size_kb) > 0 ? ` in pages of ${pageSize(Number(n.page_size_kb))}` : ""));
  return `NUMA cell ${n.id}: ${parts.join(", ")}`;
}

export function Hardware({ host }: { host: Bag }) {
  const cells: Bag[] = host.numa_cells;
  const pools: Bag[] = host.device_pools;
  const claims: Bag[] = host.hardware_claims;
  if (host.hardware_problem) return <Card title="NUMA cells and devices"><div class="problem">What the host reports of them is not readable: {host.hardware_problem}</div></Card>;
  if (cells.length + pools.length === 0) return null;
  const holders = (pool: string) => claims.filter((c) => c.devices[pool]);
  return (
    <Card title="NUMA cells and devices">
      {cells.length > 0 && (
        <Table label="NUMA cells" head={["Cell", "Shared CPUs", "Dedicated CPUs", "Of these pinned", { text: "On shared CPUs", right: true }, { text: "Memory used", right: true }, "Pages free"]}>
          {cells.map((n) => (
            <tr key={n.id}>
              <td>{n.id} <span class="quiet">socket {n.socket}</span></td>
              <td>{n.shared_cpus || "–"}</td>
              <td>{n.dedicated_cpus || "–"}</td>
              <td>{n.pinned_cpus || "–"}</td>
              <td class="right">{plural(n.cpus_used, "vCPU")}</td>
              <td class="right">{mib(n.memory_used_mb)} <span class="quiet">of {mib(n.memory_mb)}</span></td>
              <td>{n.pages.map((p: Bag) => <div key={p.size_kb}>{pageSize(Number(p.size_kb))}: {count(free(p))} <span class="quiet">of {count(p.total)}</span></div>)}</td>
            </tr>
          ))}
        </Table>
      )}
      {pools.length > 0 && <>
        <h3>Devices</h3>
        <Table label="Devices" head={["Devices", "NUMA cell", { text: "Free", right: true }, "Taken since the last report"]}>
          {pools.map((d, i) => (
            <tr key={i}>
              <td class="wide"><code>{spaced(d.devices)}</code></td>
              <td>{d.numa_cell < 0 ? "–" : d.numa_cell}</td>
              <td class="right">{count(d.free)} <span class="quiet">of {count(d.reported_free)} reported</span></td>
              <td>{holders(d.devices).map((c) => <div key={c.claim_id}><code>{c.instance_uuid}</code> {c.devices[d.devices]}</div>)}{holders(d.devices).length === 0 && "–"}</td>
            </tr>
          ))}
        </Table>
      </>}
      {claims.length > 0 && <>
        <h3>Instances that took of them since the last report</h3>
        <Table label="Instances that took of NUMA cells and devices" head={["Instance", "CPUs and memory", "Devices"]}>
          {claims.map((c) => (
            <tr key={c.claim_id}>
              <td><Link to={`/decisions?instance_uuid=${c.instance_uuid}`}><code>{c.instance_uuid}</code></Link></td>
              <td class="wide">{c.numa_cells.map((n: Bag) => <div key={n.id}>{taken(n)}</div>)}{c.numa_cells.length === 0 && "–"}</td>
              <td class="wide">{Object.entries(c.devices).map(([pool, n]) => <div key={pool}>{String(n)} × {spaced(pool)}</div>)}{Object.keys(c.devices).length === 0 && "–"}</td>
            </tr>
          ))}
        </Table>
      </>}
      <p class="quiet small">What the host's last report has in use counts as used; a report does not say by which instance. Devices have no addresses in it.</p>
    </Card>
  );
}
