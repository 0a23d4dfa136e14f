import { useEffect, useState } from "preact/hooks";
import { Bag, post, Refusal } from "../api";
import { amount, count } from "../format";
import { useLive } from "../live";
import { Badge, Card, Funnel, Page, Problem } from "../ui";
import { CellReports } from "./decisions";
import { Misses } from "./nearest";
import { Weights } from "./weights";

// uuid makes a random uuid; crypto.randomUUID is not there without TLS.
function uuid(): string {
  const b = crypto.getRandomValues(new Uint8Array(16));
  b[6] = (b[6] & 0x0f) | 0x40;
  b[8] = (b[8] & 0x3f) | 0x80;
  const hex = [...b].map((x) => x.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

const instance = uuid();

// instances are as many as may be asked for, the first of them above; newGroup is a server group without members.
const instances = [instance];
const newGroup = uuid();
const mostInstances = 1000;

const start = {
  vcpus: 4, memory_gb: 8, root_gb: 40, count: 1, required: "", forbidden: "", zone: "", aggregates: "", strategy: "", extra: "", expression: "",
  policy: "", group: "", members: "", memberHosts: "",
};

type Form = typeof start;

const names = (text: string) => text.split(/[\s,]+/).filter(Boolean);

// bodyOf makes a request of the form.
export function bodyOf(f: Form): Bag {
  const extra_specs: Record<string, string> = {};
  for (const line of f.extra.split("\n")) {
    const at = line.indexOf("=");
    if (at > 0) extra_specs[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  const spec: Bag = { flavor: { vcpus: f.vcpus, memory_mb: Math.round(f.memory_gb * 1024), root_gb: f.root_gb, extra_specs } };
  if (f.required) spec.required_traits = names(f.required);
  if (f.forbidden) spec.forbidden_traits = names(f.forbidden);
  if (f.zone) spec.availability_zone = f.zone;
  // One in each line; the names of a line are alternatives.
  const sets = f.aggregates.split("\n").map((line) => line.split(",").map((a) => a.trim()).filter(Boolean)).filter((set) => set.length > 0);
  if (sets.length) spec.member_of = sets.map((aggregates) => ({ aggregates }));
  if (f.policy) spec.instance_group = { uuid: f.group || newGroup, policy: f.policy, members: names(f.members), hosts: names(f.memberHosts) };
  if (f.strategy) spec.strategy = f.strategy;
  if (f.expression) spec.filter_expression = f.expression;
  while (instances.length < f.count) instances.push(uuid());
  return { instance_uuids: instances.slice(0, Math.max(1, f.count)), request_spec: spec, max_alternates: 12 };
}

// WhatIf is what a request would do without, or have instead; "" for an empty zone or policy.
export interface WhatIf {
  traits: string[];
  aggregates: boolean;
  zone?: string;
  policy?: string;
}

const asAsked: WhatIf = { traits: [], aggregates: true };

const isChanged = (w: WhatIf) => w.traits.length > 0 || !w.aggregates || w.zone !== undefined || w.policy !== undefined;

// changed is the form of a request with the changes of a what-if.
function changed(f: Form, w: WhatIf): Form {
  const without = (text: string) => names(text).filter((t) => !w.traits.includes(t)).join(" ");
  return { ...f, required: without(f.required), forbidden: without(f.forbidden), zone: w.zone ?? f.zone, policy: w.policy ?? f.policy, aggregates: w.aggregates ? f.aggregates : "" };
}

const policies = ["affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"];

// bodyOfText makes a request of what was pasted: one of this API, or Nova's RequestSpec as
// obj_to_primitive gives it.
function bodyOfText(text: string): Bag {
  const parsed = JSON.parse(text);
  if (parsed.nova_request_spec || parsed.request_spec) return { instance_uuids: [instance], ...parsed, max_alternates: 12 };
  if (parsed["nova_object.name"]) return { instance_uuids: [instance], nova_request_spec: parsed, max_alternates: 12 };
  if (parsed.flavor || parsed.resources) return { instance_uuids: [instance], request_spec: parsed, max_alternates: 12 };
  throw new Error('This is neither Nova\'s RequestSpec ("nova_object.name"), nor a request with "request_spec" or "nova_request_spec".');
}

export function TryPage() {
  const [pasted, setPasted] = useState(false);
  const [form, setForm] = useState(start);
  const [text, setText] = useState("");
  const [whatIf, setWhatIf] = useState(asAsked);
  const [asked, setAsked] = useState<Bag>();
  const [answer, setAnswer] = useState<Bag>();
  const [error, setError] = useState<Error>();
  const explain = async (signal?: AbortSignal) => {
    try {
      const ask = (body: Bag) => post("/v1/explain_destinations", body, signal);
      const [now, then] = await Promise.all([ask(pasted ? bodyOfText(text) : bodyOf(form)), !pasted && isChanged(whatIf) ? ask(bodyOf(changed(form, whatIf))) : undefined]);
      setAsked(then && now);
      setAnswer(then ?? now);
      setError(undefined);
    } catch (e) {
      if (!signal?.aborted) setError(e as Error);
    }
  };
  // The sliders ask as they move.
  useEffect(() => {
    if (pasted) return;
    const stop = new AbortController();
    const wait = setTimeout(() => void explain(stop.signal), 250);
    return () => {
      clearTimeout(wait);
      stop.abort();
    };
  }, [form, whatIf, pasted]);
  const set = (change: Partial<Form>) => setForm({ ...form, ...change });
  return (
    <Page title="Try a request">
      <p class="quiet">What would be done with a request, and why. Nothing is claimed.</p>
      <div class="split">
        <Card>
          <div class="tabs" role="group" aria-label="How to give the request">
            <button aria-pressed={!pasted} onClick={() => setPasted(false)}>Form</button>
            <button aria-pressed={pasted} onClick={() => setPasted(true)}>Paste JSON</button>
          </div>
          {pasted ? (
            <form class="stack" onSubmit={(e) => { e.preventDefault(); void explain(); }}>
              <label>Nova's RequestSpec, or a request of the API
                <textarea rows={18} spellcheck={false} value={text} onInput={(e) => setText(e.currentTarget.value)} placeholder='{"nova_object.name": "RequestSpec", "nova_object.data": {…}}' />
              </label>
              <button class="primary">Explain</button>
            </form>
          ) : (
            <form class="stack" onSubmit={(e) => e.preventDefault()}>
              <Slider name="vCPUs" value={form.vcpus} max={256} set={(vcpus) => set({ vcpus })} />
              <Slider name="Memory, GiB" value={form.memory_gb} max={4096} set={(memory_gb) => set({ memory_gb })} />
              <Slider name="Root disk, GiB" value={form.root_gb} max={8192} set={(root_gb) => set({ root_gb })} />
              <label>Instances <input class="narrow" type="number" min={1} max={mostInstances} value={form.count} onInput={(e) => set({ count: Math.min(mostInstances, Math.max(1, Math.round(Number(e.currentTarget.value)))) })} /></label>
              <label>Required traits <input value={form.required} placeholder="HW_CPU_X86_AVX2 …" onInput={(e) => set({ required: e.currentTarget.value })} /></label>
              <label>Forbidden traits <input value={form.forbidden} onInput={(e) => set({ forbidden: e.currentTarget.value })} /></label>
              <label>Availability zone <input value={form.zone} onInput={(e) => set({ zone: e.currentTarget.value.trim() })} /></label>
              <label>In aggregates, by name or uuid; several in a line: one of them <textarea rows={2} spellcheck={false} value={form.aggregates} placeholder="ssd" onInput={(e) => set({ aggregates: e.currentTarget.value })} /></label>
              <label>Server group
                <select value={form.policy} onChange={(e) => set({ policy: e.currentTarget.value })}>
                  <option value="">none</option>
                  {policies.map((p) => <option key={p}>{p}</option>)}
                </select>
              </label>
              {form.policy && <>
                <label>Group <input value={form.group} placeholder="uuid; a new group when empty" onInput={(e) => set({ group: e.currentTarget.value.trim() })} /></label>
                <label>Members, by uuid <input value={form.members} placeholder="those that cellgate does not know" onInput={(e) => set({ members: e.currentTarget.value })} /></label>
                <label>Hosts of these members <input value={form.memberHosts} onInput={(e) => set({ memberHosts: e.currentTarget.value })} /></label>
              </>}
              <label>Strategy
                <select value={form.strategy} onChange={(e) => set({ strategy: e.currentTarget.value })}>
                  <option value="">the gateway's weighers</option>
                  {["nova", "spread", "balanced", "pack"].map((s) => <option key={s}>{s}</option>)}
                </select>
              </label>
              <label>Extra specs, one a line <textarea rows={3} spellcheck={false} value={form.extra} placeholder="hw:cpu_policy=dedicated" onInput={(e) => set({ extra: e.currentTarget.value })} /></label>
              <label>Filter expression (CEL) <input value={form.expression} spellcheck={false} placeholder="host.free.VCPU > 8" onInput={(e) => set({ expression: e.currentTarget.value })} /></label>
            </form>
          )}
        </Card>
        <div>
          {!pasted && <WhatIfCard form={form} whatIf={whatIf} set={setWhatIf} keep={() => { setForm(changed(form, whatIf)); setWhatIf(asAsked); }} />}
          <div aria-live="polite">
          {error ? <Refused error={error} /> : answer && <Answer answer={answer} asked={asked} instances={pasted ? 1 : form.count} />}
          </div>
        </div>
      </div>
    </Page>
  );
}

// WhatIfCard changes conditions of the request that are no amounts, without a change of the form.
function WhatIfCard({ form, whatIf, set, keep }: { form: Form; whatIf: WhatIf; set: (w: WhatIf) => void; keep: () => void }) {
  const live = useLive();
  const traits = [...new Set([...names(form.required), ...names(form.forbidden)])];
  const zones = [...new Set((live.cells ?? []).flatMap((c) => c.availability_zones as string[]))].filter((z) => z !== form.zone).sort();
  const dropped = whatIf.traits.filter((t) => traits.includes(t));
  const toggle = (t: string) => set({ ...whatIf, traits: dropped.includes(t) ? dropped.filter((x) => x !== t) : [...dropped, t] });
  // An option's value says whether there is one: "=" and what would be instead.
  const pick = (name: "zone" | "policy", value: string) => set({ ...whatIf, [name]: value === "" ? undefined : value.slice(1) });
  const value = (v: string | undefined) => (v === undefined ? "" : "=" + v);
  return (
    <Card title="What if" extra={isChanged(whatIf) && <span class="badges"><button onClick={keep}>Keep in the form</button><button onClick={() => set(asAsked)}>As asked</button></span>}>
      <div class="controls">
        <label>the zone were
          <select value={value(whatIf.zone)} onChange={(e) => pick("zone", e.currentTarget.value)}>
            <option value="">as asked: {form.zone || "any"}</option>
            {form.zone && <option value="=">any</option>}
            {zones.map((z) => <option key={z} value={"=" + z}>{z}</option>)}
          </select>
        </label>
        <label>the group's policy were
          <select value={value(whatIf.policy)} onChange={(e) => pick("policy", e.currentTarget.value)}>
            <option value="">as asked: {form.policy || "no group"}</option>
            {form.policy && <option value="=">no group</option>}
            {policies.filter((p) => p !== form.policy).map((p) => <option key={p} value={"=" + p}>{p}</option>)}
          </select>
        </label>
        {form.aggregates.trim() && <label class="check"><input type="checkbox" checked={!whatIf.aggregates} onChange={(e) => set({ ...whatIf, aggregates: !e.currentTarget.checked })} /> no aggregates were asked for</label>}
      </div>
      {traits.length > 0 && (
        <div class="tabs" role="group" aria-label="Traits that were not asked for">
          <span class="quiet small">without</span>
          {traits.map((t) => <button key={t} aria-pressed={dropped.includes(t)} onClick={() => toggle(t)}>{t}</button>)}
        </div>
      )}
    </Card>
  );
}

// Slider gives an amount: its steps grow with it, so that small amounts are as easy as large ones.
function Slider({ name, value, max, set }: { name: string; value: number; max: number; set: (v: number) => void }) {
  const steps = 200;
  const at = Math.round((steps * Math.log2(1 + value)) / Math.log2(1 + max));
  return (
    <div class="slider">
      <label>{name} <input type="number" min={0} max={max * 64} value={value} onInput={(e) => set(Math.max(0, Number(e.currentTarget.value)))} /></label>
      <input type="range" aria-label={`${name}, slider`} min={0} max={steps} value={at} aria-valuetext={String(value)} onInput={(e) => set(Math.round(Math.pow(2, (Number(e.currentTarget.value) / steps) * Math.log2(1 + max)) - 1))} />
    </div>
  );
}

function Refused({ error }: { error: Error }) {
  const fields: Bag[] = (error instanceof Refusal && error.of("google.rpc.BadRequest")?.field_violations) || [];
  return (
    <Card title="The request was refused">
      <Problem error={error} />
      {fields.map((f) => <p key={f.field}><code>{f.field}</code> {f.description}</p>)}
    </Card>
  );
}

// asked is the answer to the request as it was asked, when a is that to a what-if.
function Answer({ answer: a, asked, instances }: { answer: Bag; asked?: Bag; instances: number }) {
  const winner = a.ranked[0];
  const would = (host: Bag) => <>{instances > 1 ? a.refusal ? "The first one" : `All ${count(instances)} find hosts; the first one` : "It"} would go to {host.service_host} <span class="quiet">in {host.cell}</span></>;
  return (
    <>
      <Card
        title={winner ? would(winner) : "No valid host was found"}
        extra={<span class="badges">{asked && <Badge tone="info">what if</Badge>}{a.refusal && winner && <Badge tone="bad">not all {count(instances)} find hosts</Badge>}{a.partial && <Badge tone="warn">partial</Badge>}{a.exact ? <Badge tone="good">exact</Badge> : <Badge tone="warn">not exact</Badge>}</span>}
      >
        {a.refusal && <p class="reason">{a.refusal}</p>}
        <p>{count(a.passed)} of {count(a.hosts)} hosts passed every filter{asked && `; as asked ${count(asked.passed)}`}.</p>
        <Funnel hosts={a.hosts} passed={a.passed} rejects={a.rejects} />
      </Card>
      {a.ranked.length > 0 && <Card title="Ranking"><Weights ranked={a.ranked} /></Card>}
      {(a.smallest_change || a.smallest_operator_change || a.nearest.length > 0) && <Card title={winner ? "Hosts that nearly passed" : "What would fit"}><Misses of={a} /></Card>}
      <Card title="Cells"><CellReports cells={a.cells} /></Card>
      {a.ignored_fields.length > 0 && <Card title="Fields read over"><p>{a.ignored_fields.join(", ")}</p></Card>}
      {winner && <p class="quiet small">The winner would be claimed as {Object.entries(JSON.parse(winner.allocation_request).allocations as Record<string, Bag>).map(([p, x]) => `${p}: ${Object.entries(x.resources).map(([c, n]) => `${amount(n as number, c)} ${c}`).join(", ")}`).join("; ")}.</p>}
    </>
  );
}
