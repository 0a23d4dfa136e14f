// Parts that several pages use.
import { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Refusal } from "./api";
import { amount, className, clock, count, percent } from "./format";

export function Page({ title, children, actions }: { title: string; children: ComponentChildren; actions?: ComponentChildren }) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} · cellgate`;
  }, [title]);
  return (
    <>
      <div class="page-head">
        <h1 ref={heading} tabIndex={-1}>{title}</h1>
        {actions}
      </div>
      {children}
    </>
  );
}

export function Card({ title, children, class: more = "", extra }: { title?: ComponentChildren; children: ComponentChildren; class?: string; extra?: ComponentChildren }) {
  return (
    <section class={"card " + more}>
      {title && (
        <div class="card-head">
          <h2>{title}</h2>
          {extra}
        </div>
      )}
      {children}
    </section>
  );
}

type Tone = "good" | "warn" | "bad" | "plain" | "info";

// Badge is a state; its text says it, the colour only helps.
export const Badge = ({ tone, children, title }: { tone: Tone; children: ComponentChildren; title?: string }) => (
  <span class={"badge " + tone} title={title}>{children}</span>
);

export const Problem = ({ error }: { error: Refusal | Error }) => (
  <div class="problem" role="alert">
    <strong>{error instanceof Refusal ? error.reason : "Error"}</strong> {error.message}
  </div>
);

// Missing names cells whose part of a list is not there.
export const Missing = ({ cells, what }: { cells?: string[]; what: string }) =>
  cells?.length ? <div class="problem" role="status"><strong>{cells.join(", ")}</strong> did not answer: {what} missing here.</div> : null;

// LastRead says of what is shown below an error when it was read, in Unix milliseconds.
export const LastRead = ({ at, what }: { at: number; what: string }) => <p><Badge tone="warn">last known</Badge> {what} was read at {clock(at)}.</p>;

export const Empty = ({ children }: { children: ComponentChildren }) => <p class="empty">{children}</p>;

export const Waiting = ({ what }: { what: string }) => <p class="empty" aria-live="polite">Reading {what} …</p>;

// Meter shows how much of a resource class is in use.
export function Meter({ resourceClass, used, capacity }: { resourceClass: string; used: number; capacity: number }) {
  const part = capacity > 0 ? used / capacity : 0;
  return (
    <div class="meter-row">
      <span class="meter-name">{className(resourceClass)}</span>
      <span class="meter" role="meter" aria-label={`${className(resourceClass)} in use`} aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.round(part * 100)}>
        <span class={"meter-fill" + (part > 0.9 ? " high" : "")} style={{ width: `${Math.min(100, part * 100)}%` }} />
      </span>
      <span class="meter-text">
        {percent(part)} <span class="quiet">of {amount(capacity, resourceClass)}</span>
      </span>
    </div>
  );
}

// Table can be scrolled sideways, also with the keyboard.
export function Table({ label, head, children }: { label: string; head: (string | { text: string; right?: boolean })[]; children: ComponentChildren }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table>
        <thead>
          <tr>{head.map((h, i) => (typeof h === "string" ? <th scope="col" key={i}>{h}</th> : <th scope="col" key={i} class={h.right ? "right" : ""}>{h.text}</th>))}</tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

export const Link = ({ to, children, class: c }: { to: string; children: ComponentChildren; class?: string }) => (
  <a class={c} href={"#" + to}>{children}</a>
);

// Facts is a list of names and values.
export function Facts({ rows }: { rows: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {rows.filter(([, v]) => v !== undefined && v !== "" && v !== null).map(([k, v]) => (
        <div key={k}>
          <dt>{k}</dt>
          <dd>{v}</dd>
        </div>
      ))}
    </dl>
  );
}

// useNow is the time, and makes ages on a page move.
export function useNow(everyMs = 5000): number {
  const [now, set] = useState(Date.now());
  useEffect(() => {
    const t = setInterval(() => set(Date.now()), everyMs);
    return () => clearInterval(t);
  }, [everyMs]);
  return now;
}

export interface Step {
  label: string;
  hosts: number;
  detail?: string;
}

// Funnel shows how filters left fewer and fewer hosts.
export function Funnel({ hosts, rejects, passed }: { hosts: number; rejects: { filter: string; detail: string; hosts: number }[]; passed: number }) {
  let left = hosts;
  return (
    <ol class="funnel" aria-label="Hosts that each filter left">
      <li>
        <span class="funnel-name">All hosts looked at</span>
        <span class="funnel-bar"><span style={{ width: "100%" }} /></span>
        <span class="funnel-count">{count(hosts)}</span>
      </li>
      {rejects.map((r, i) => {
        left -= r.hosts;
        return (
          <li key={i}>
            <span class="funnel-name">{r.filter}{r.detail && <span class="quiet"> {r.detail}</span>}</span>
            <span class="funnel-bar">
              <span style={{ width: `${hosts ? (100 * left) / hosts : 0}%` }} />
              <span class="lost" style={{ width: `${hosts ? (100 * r.hosts) / hosts : 0}%` }} />
            </span>
            <span class="funnel-count"><span class="quiet">−{count(r.hosts)}</span> {count(left)}</span>
          </li>
        );
      })}
      <li class="funnel-end">
        <span class="funnel-name">Passed every filter</span>
        <span class="funnel-bar"><span style={{ width: `${hosts ? (100 * passed) / hosts : 0}%` }} /></span>
        <span class="funnel-count">{count(passed)}</span>
      </li>
    </ol>
  );
}
