import { useEffect, useState } from "preact/hooks";
import { Bag, post, Refusal } from "../api";
import { amount, count } from "../format";
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

const start = { vcpus: 4, memory_gb: 8, root_gb: 40, required: "", forbidden: "", zone: "", strategy: "", extra: "", expression: "" };

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
  if (f.strategy) spec.strategy = f.strategy;
  if (f.expression) spec.filter_expression = f.expression;
  return { instance_uuids: [instance], request_spec: spec, max_alternates: 12 };
}

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
  const [answer, setAnswer] = useState<Bag>();
  const [error, setError] = useState<Error>();
  const explain = async (signal?: AbortSignal) => {
    try {
      setAnswer(await post("/v1/explain_destinations", pasted ? bodyOfText(text) : bodyOf(form), signal));
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
  }, [form, pasted]);
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
              <label>Required traits <input value={form.required} placeholder="HW_CPU_X86_AVX2 …" onInput={(e) => set({ required: e.currentTarget.value })} /></label>
              <label>Forbidden traits <input value={form.forbidden} onInput={(e) => set({ forbidden: e.currentTarget.value })} /></label>
              <label>Availability zone <input value={form.zone} onInput={(e) => set({ zone: e.currentTarget.value.trim() })} /></label>
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
        <div aria-live="polite">
          {error ? <Refused error={error} /> : answer && <Answer answer={answer} />}
        </div>
      </div>
    </Page>
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

function Answer({ answer: a }: { answer: Bag }) {
  const winner = a.ranked[0];
  return (
    <>
      <Card
        title={winner ? <>It would go to {winner.service_host} <span class="quiet">in {winner.cell}</span></> : "No valid host was found"}
        extra={<span class="badges">{a.partial && <Badge tone="warn">partial</Badge>}{a.exact ? <Badge tone="good">exact</Badge> : <Badge tone="warn">not exact</Badge>}</span>}
      >
        <p>{count(a.passed)} of {count(a.hosts)} hosts passed every filter.</p>
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
