// What the whole console follows: the gateway's events, and its metrics while a page shows them.
import { useEffect, useState } from "preact/hooks";
import { Bag, events, get, getText, hasToken, Refusal } from "./api";
import { Buckets, difference, quantile, readHistogram } from "./metrics";

export interface Live {
  // "live" while events come, "waiting" before the first and while the stream is broken.
  state: "live" | "waiting" | "denied";
  cells?: Bag[];
  // Of the newest decision; changes when there is another.
  newest: string;
  problem: string;
}

let now: Live = { state: "waiting", newest: "", problem: "" };
const listeners = new Set<(l: Live) => void>();
let stream: AbortController | undefined;

function change(to: Partial<Live>) {
  now = { ...now, ...to };
  for (const f of listeners) f(now);
}

// follow opens the stream of events, and again when it breaks, until stop is called.
export function follow() {
  stream?.abort();
  const mine = (stream = new AbortController());
  void (async () => {
    for (let wait = 500; !mine.signal.aborted; wait = Math.min(wait * 2, 10_000)) {
      try {
        await events((event, data) => {
          wait = 500;
          if (event === "cells") change({ state: "live", problem: "", cells: data.cells });
          if (event === "decisions") change({ newest: data.newest });
        }, mine.signal);
        change({ state: "waiting", problem: "The gateway ended the stream of events." });
      } catch (e) {
        if (mine.signal.aborted) return;
        const refused = e instanceof Refusal ? e : undefined;
        if (refused?.status === 401) {
          change({ state: "denied", problem: hasToken() ? refused.message : "" });
          return;
        }
        change({ state: "waiting", problem: String((e as Error).message) });
      }
      await new Promise((done) => setTimeout(done, wait));
    }
  })();
}

export function useLive(): Live {
  const [l, set] = useState(now);
  useEffect(() => {
    set(now);
    listeners.add(set);
    return () => void listeners.delete(set);
  }, []);
  return l;
}

export interface Loaded<T> {
  value?: T;
  // When the value was read, Unix milliseconds.
  at: number;
  error?: Refusal;
  loading: boolean;
  again: () => void;
}

// useGet loads a path, and anew when it or the key changes. The value and the error stay while it loads.
export function useGet<T = Bag>(path: string | undefined, key: unknown = ""): Loaded<T> {
  const [s, set] = useState<{ path?: string; value?: T; at: number; error?: Refusal; loading: boolean }>({ at: 0, loading: true });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    if (!path) return;
    const stop = new AbortController();
    set((old) => (old.path === path ? { ...old, loading: true } : { path, at: 0, loading: true }));
    get<T>(path, {}, stop.signal).then(
      (value) => set({ path, value, at: Date.now(), loading: false }),
      (error) => stop.signal.aborted || set((old) => ({ ...old, error, loading: false })),
    );
    return () => stop.abort();
  }, [path, key, turn]);
  return { ...s, value: s.path === path ? s.value : undefined, again: () => setTurn((t) => t + 1) };
}

// Rates are a gateway's over the time between two reads of /metrics.
export interface Rates {
  // Unix seconds.
  at: number;
  // Selections a second; their median and 99th percentile in seconds, of the last minute.
  perSecond: number;
  p50?: number;
  p99?: number;
  // Of cells: calls of ProposeBatch.
  cells: Record<string, { perSecond: number; p50?: number; p99?: number }>;
}

const readEvery = 5_000;
const span = 60;

interface Sample {
  at: number;
  select: Buckets;
  cells: Record<string, Buckets>;
}

// useRates reads /metrics every 5 s and gives the rates of the last 15 minutes at most.
export function useRates(): Rates[] {
  const [rates, set] = useState<Rates[]>([]);
  useEffect(() => {
    const stop = new AbortController();
    const samples: Sample[] = [];
    let timer = 0;
    const read = async () => {
      try {
        const text = await getText("/metrics", stop.signal);
        const cells = readHistogram(text, "cellgate_gateway_cell_call_seconds", { rpc: "ProposeBatch" }, "cell");
        const select = readHistogram(text, "cellgate_gateway_request_seconds", { rpc: "SelectDestinations" }, "rpc").SelectDestinations ?? { bounds: [], counts: [] };
        const s: Sample = { at: Date.now() / 1000, select, cells };
        const before = samples.find((x) => x.at >= s.at - span);
        const last = samples.at(-1);
        samples.push(s);
        while (samples[0].at < s.at - 2 * span) samples.shift();
        if (before && last) {
          const lately = difference(s.select, before.select);
          const r: Rates = {
            at: s.at,
            perSecond: difference(s.select, last.select).total / (s.at - last.at),
            p50: quantile(lately, 0.5),
            p99: quantile(lately, 0.99),
            cells: {},
          };
          for (const [cell, b] of Object.entries(cells)) {
            const d = difference(b, before.cells[cell]);
            r.cells[cell] = { perSecond: d.total / (s.at - before.at), p50: quantile(d, 0.5), p99: quantile(d, 0.99) };
          }
          set((old) => [...old, r].slice(-180));
        }
      } catch {
        // The stream of events says that the gateway does not answer; rates come again after it.
      }
      if (!stop.signal.aborted) timer = window.setTimeout(read, readEvery);
    };
    void read();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, []);
  return rates;
}
