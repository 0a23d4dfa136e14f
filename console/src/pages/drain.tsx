// Where the instances of hosts would go if the hosts were emptied.
import { useState } from "preact/hooks";
import { Bag, post } from "../api";
import { amount, className, count, plural, protoSeconds, seconds } from "../format";
import { Badge, Card, Link, Problem, Table } from "../ui";
import { Misses } from "./nearest";

const needs: Record<string, string> = {
  NEED_TRAITS: "required traits", NEED_AGGREGATES: "zone and aggregates", NEED_IMAGE: "image", NEED_HINTS: "hints",
  NEED_GROUP: "server group", NEED_HARDWARE: "NUMA cells and devices", NEED_FLAVOR: "flavor id",
};

const stays: Record<string, string> = {
  STAYS_PENDING: "its claim is not confirmed: it is being built, or moved here",
  STAYS_MOVING: "it is being moved away already",
  STAYS_NO_INSTANCE: "it is no instance",
};

const ends: Record<string, string> = { LIMIT: "the plan is as long as it may be", TIME: "time was up" };

const shown = 200;

const resources = (i: Bag) => Object.keys(i.resources ?? {}).sort((a, b) => rank(a) - rank(b) || a.localeCompare(b)).map((c) => `${amount(i.resources[c], c)} ${className(c)}`).join(", ");

const rank = (c: string) => ["VCPU", "PCPU", "MEMORY_MB", "DISK_GB"].indexOf(c) >>> 0;

const host = (uuid: string, name: string) => <Link to={`/hosts/${uuid}`}>{name}</Link>;

export function DrainPlan() {
  const [hosts, setHosts] = useState("");
  const [plan, setPlan] = useState<Bag>();
  const [error, setError] = useState<Error>();
  const [busy, setBusy] = useState(false);
  const names = [...new Set(hosts.split(/[\s,]+/).filter(Boolean))];
  const ask = async () => {
    setBusy(true);
    setError(undefined);
    try {
      setPlan(await post("/v1/plan_drain", { hosts: names }));
    } catch (e) {
      setPlan(undefined);
      setError(e as Error);
    }
    setBusy(false);
  };
  return (
    <>
      <form onSubmit={(e) => { e.preventDefault(); void ask(); }}>
        <Card title="Empty hosts">
          <p class="quiet">Where each instance of these hosts would go, in which order, and what finds no host. Nothing is moved.</p>
          <div class="controls">
            <label>Hosts to empty <input class="uuid" placeholder="names or uuids" value={hosts} onInput={(e) => setHosts(e.currentTarget.value)} /></label>
            <button class="primary" disabled={busy || names.length === 0}>{busy ? "Planning …" : "Plan the drain"}</button>
          </div>
        </Card>
      </form>
      <div aria-live="polite">
        {error && <Problem error={error} />}
        {plan && <Plan plan={plan} />}
      </div>
    </>
  );
}

function Plan({ plan }: { plan: Bag }) {
  const all: Bag[] = [...plan.moves, ...plan.unplaced].map((m: Bag) => m.instance);
  const unknown = Object.keys(needs).map((n) => [n, all.filter((i) => i.unknown?.includes(n)).length] as const).filter(([, n]) => n > 0);
  const reasons = new Map<string, Bag[]>();
  for (const u of plan.unplaced) reasons.set(u.message, [...(reasons.get(u.message) ?? []), u]);
  return (
    <>
      <Card title="Drain plan" extra={<span class="badges">
        {plan.partial && <Badge tone="warn">partial</Badge>}
        <Badge tone="good">{count(plan.moves.length)} can move</Badge>
        {plan.unplaced.length > 0 && <Badge tone="bad">{count(plan.unplaced.length)} find no host</Badge>}
        {plan.staying.length > 0 && <Badge tone="warn">{count(plan.staying.length)} cannot be moved now</Badge>}
        <span class="quiet small">planned in {seconds(protoSeconds(plan.took))}</span>
      </span>}>
        <p>{plan.hosts.map((h: Bag, i: number) => <span key={h.host_uuid}>{i > 0 && ", "}{host(h.host_uuid, h.service_host)} of {h.cell}: {plural(h.instances, "instance")}</span>)}</p>
        {unknown.length > 0 && <p class="quiet">The plan ignores what is not known of the instances: {unknown.map(([n, k]) => needs[n] + (k < all.length ? ` of ${plural(k, "instance")}` : "")).join(", ")}. <code>cellgate drain --plan --specs</code> brings it from Nova's database.</p>}
        {plan.untried > 0 && <p><Badge tone="warn">{plural(plan.untried, "instance")} not tried</Badge> {ends[plan.end]}.</p>}
        {plan.moves.length > 0 && <Table label="Moves" head={[{ text: "Turn", right: true }, "Instance", "From", "To", "Resources", "Server group"]}>
          {plan.moves.slice(0, shown).map((m: Bag, k: number) => (
            <tr key={m.instance.claim_id}>
              <td class="right">{k + 1}</td>
              <td><code>{m.instance.instance_uuid}</code></td>
              <td>{host(m.instance.host_uuid, m.instance.service_host)}</td>
              <td>{host(m.to_host_uuid, m.to_service_host)}</td>
              <td>{resources(m.instance)}</td>
              <td>{m.instance.group_policy}</td>
            </tr>
          ))}
        </Table>}
        {plan.moves.length > shown && <p class="quiet">The first {shown} of {count(plan.moves.length)}; <code>cellgate drain --plan</code> has all.</p>}
        {plan.staying.length > 0 && <>
          <h3>Cannot be moved now</h3>
          <Table label="Cannot be moved now" head={["Instance", "On", "Why"]}>
            {plan.staying.slice(0, shown).map((s: Bag) => <tr key={s.instance.claim_id}><td><code>{s.instance.instance_uuid}</code></td><td>{host(s.instance.host_uuid, s.instance.service_host)}</td><td class="wide">{stays[s.reason] ?? s.reason}</td></tr>)}
          </Table>
        </>}
      </Card>
      {[...reasons].map(([message, list]) => (
        <Card key={message} title={`No host for ${plural(list.length, "instance")}`}>
          <p>{message}</p>
          <Table label="Find no host" head={["Instance", "On", "Resources", "Server group"]}>
            {list.slice(0, shown).map((u) => <tr key={u.instance.claim_id}><td><code>{u.instance.instance_uuid}</code></td><td>{host(u.instance.host_uuid, u.instance.service_host)}</td><td>{resources(u.instance)}</td><td>{u.instance.group_policy}</td></tr>)}
          </Table>
          {list.find((u) => u.refusal?.nearest?.length) && <Misses of={list.find((u) => u.refusal?.nearest?.length)!.refusal} />}
        </Card>
      ))}
    </>
  );
}
