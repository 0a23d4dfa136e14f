import { Bag } from "../api";
import { ago, amount, className, clock, count, percent, plural, short } from "../format";
import { useGet, useLive } from "../live";
import { Badge, Card, Empty, Facts, LastRead, Link, Meter, Missing, Page, Problem, Table, useNow, Waiting } from "../ui";
import { stateOf, usageOf } from "./cell";
import { ClaimTable } from "./claims";
import { Hardware } from "./hardware";

export function HostPage({ uuid }: { uuid: string }) {
  const now = useNow();
  const live = useLive();
  // Read again when something was decided, and every ten seconds.
  const tick = Math.floor(now / 10_000);
  const got = useGet(`/v1/hosts/${uuid}`, `${live.newest} ${tick}`);
  const host = got.value?.host as Bag | undefined;
  const claims = useGet(host && `/v1/claims?cell=${encodeURIComponent(host.cell)}&host_uuid=${uuid}&page_size=200`, `${live.newest} ${tick}`);
  if (got.error && !host) return <Page title="Host"><Problem error={got.error} /></Page>;
  if (!host) return <Page title="Host"><Waiting what="the host" /></Page>;
  const state = stateOf(host);
  const providers = [...new Set((host.inventories as Bag[]).map((i) => i.provider_uuid))];
  return (
    <Page title={host.service_host} actions={<span class="badges"><Badge tone={state === "" ? "good" : state === "down" ? "bad" : "plain"}>{state || "up"}</Badge></span>}>
      {got.error && <><Problem error={got.error} /><LastRead at={got.at} what="What is below" /></>}
      <p><Link to={`/cells/${encodeURIComponent(host.cell)}`}>{host.cell}</Link>{host.availability_zone && `, zone ${host.availability_zone}`}, {plural(host.instances, "instance")}</p>
      {host.refused && (
        <div class="problem">
          <strong>Its newest state is refused</strong> {ago(host.refused.since, now)}: {host.refused.problems.join("; ")}. What is shown is the state before.
        </div>
      )}
      <div class="grid two">
        <Card title="In use">{Object.entries(usageOf(host)).map(([c, u]) => <Meter key={c} resourceClass={c} used={u.used} capacity={u.capacity} />)}</Card>
        <Card title="Who says so">
          <Facts rows={[
            ["Source", host.imported ? "Nova's tables, imported" : "its agent"],
            ["Agent last heard", ago(host.last_seen_at, now)],
            ["Agent version", host.agent_version ? String(host.agent_version) : "no agent"],
            ["Instances on it", host.instances_unknown ? "not known to its agent" : "reported by its agent"],
            ["Enabled", host.enabled ? "yes" : `no: ${host.disabled_reason || "no reason given"}`],
            ["Operator", host.admin && host.admin.state !== "STATE_UNSPECIFIED" ? `${host.admin.state.toLowerCase().replace("_", " ")}${host.admin.reason ? `: ${host.admin.reason}` : ""} (${host.admin.by || "unnamed"}, ${ago(host.admin.since, now)}${host.admin.until ? `, until ${clock(host.admin.until)}` : ""})` : undefined],
            ["Nova's service", host.admin?.nova],
            ["Node", <code>{host.nodename}</code>],
            ["Uuid", <code>{host.host_uuid}</code>],
            ["Generation", String(host.generation)],
          ]} />
        </Card>
      </div>
      <Card title="Inventory">
        <Table label="Inventory" head={["Provider", "Resource class", { text: "Total", right: true }, { text: "Reserved", right: true }, { text: "Ratio", right: true }, { text: "Capacity", right: true }, { text: "Claimed", right: true }, { text: "Other use", right: true }, { text: "Free", right: true }, { text: "Min / max / step", right: true }]}>
          {providers.flatMap((p) =>
            (host.inventories as Bag[]).filter((i) => i.provider_uuid === p).map((i, k) => {
              const capacity = Math.floor((i.total - i.reserved) * i.allocation_ratio);
              const free = capacity - i.used - i.unaccounted;
              return (
                <tr key={p + i.resource_class}>
                  <td>{k === 0 && (p === host.host_uuid ? "the host" : <>└ <code title={p}>{short(p)}</code></>)}</td>
                  <td>{className(i.resource_class)}</td>
                  <td class="right">{amount(i.total, i.resource_class)}</td>
                  <td class="right">{amount(i.reserved, i.resource_class)}</td>
                  <td class="right">{i.allocation_ratio}</td>
                  <td class="right">{amount(capacity, i.resource_class)}</td>
                  <td class="right">{amount(i.used, i.resource_class)}</td>
                  <td class="right">{i.unaccounted ? amount(i.unaccounted, i.resource_class) : "–"}</td>
                  <td class="right">{amount(free, i.resource_class)} <span class="quiet">{percent(capacity ? free / capacity : 0)}</span></td>
                  <td class="right quiet">{count(i.min_unit)} / {count(i.max_unit)} / {count(i.step_size)}</td>
                </tr>
              );
            }),
          )}
        </Table>
      </Card>
      <Hardware host={host} />
      <Card title="Claims">
        {claims.error && <Problem error={claims.error} />}
        <Missing cells={claims.value?.unavailable_cells} what="its claims are" />
        {claims.value ? claims.value.claims.length ? <ClaimTable claims={claims.value.claims} now={now} /> : !claims.value.unavailable_cells.length && <Empty>No claims.</Empty> : !claims.error && <Waiting what="the claims" />}
        {claims.value?.next_page_token && <p class="quiet">The first {claims.value.claims.length}; <code>cellgate claims list --host</code> has all.</p>}
      </Card>
      <div class="grid two">
        <Card title="Traits and aggregates">
          <p class="chips">{host.traits.map((t: string) => <code key={t} class="chip">{t}</code>)}</p>
          {host.aggregates.map((a: Bag) => (
            <p key={a.uuid}>
              <strong>{a.name || short(a.uuid)}</strong>{" "}
              {Object.entries(a.metadata).map(([k, v]) => <code key={k} class="chip">{k}={String(v)}</code>)}
            </p>
          ))}
        </Card>
        <Card title="Facts">
          {host.namespaces.length === 0 && <Empty>Nobody reports facts of this host.</Empty>}
          {host.namespaces.map((n: Bag) => (
            <details key={n.name}>
              <summary><code>facts.{n.name}</code> <span class="quiet">{n.by_agent ? "from its agent" : `from a service, generation ${n.generation}`}</span></summary>
              <pre tabIndex={0}>{JSON.stringify(n.facts, null, 1)}</pre>
            </details>
          ))}
        </Card>
      </div>
    </Page>
  );
}
