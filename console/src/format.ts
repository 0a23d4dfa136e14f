// How amounts and times are written.

const number = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const date = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const time = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

export const count = (n: number | string | undefined) => number.format(Number(n ?? 0));

export const plural = (n: number, one: string, many = one + "s") => `${count(n)} ${n === 1 ? one : many}`;

export const percent = (part: number) => (isFinite(part) ? `${part > 0 && part < 0.01 ? "<1" : Math.round(part * 100)} %` : "–");

// amount writes an amount of a resource class in the unit that people use.
export function amount(n: number | string, resourceClass: string): string {
  const v = Number(n);
  const mb = resourceClass === "MEMORY_MB";
  if (mb || resourceClass === "DISK_GB") {
    const tb = mb ? v / 1024 / 1024 : v / 1024;
    if (Math.abs(tb) >= 1) return `${tb.toFixed(tb >= 100 ? 0 : 1)} TiB`;
    const gb = mb ? v / 1024 : v;
    if (Math.abs(gb) >= 1) return `${gb.toFixed(gb >= 100 || Number.isInteger(gb) ? 0 : 1)} GiB`;
    return `${count(v)} MiB`;
  }
  return count(v);
}

export const classNames: Record<string, string> = { VCPU: "vCPU", PCPU: "pCPU", MEMORY_MB: "Memory", DISK_GB: "Disk" };
export const className = (c: string) => classNames[c] ?? c;

// seconds writes a duration that was measured.
export function seconds(s: number | undefined): string {
  if (s === undefined) return "–";
  if (s < 0.001) return `${(s * 1e6).toFixed(0)} µs`;
  if (s < 1) return `${(s * 1000).toFixed(s < 0.01 ? 1 : 0)} ms`;
  return `${s.toFixed(1)} s`;
}

// ago writes the age of a time.
export function ago(at: string | undefined, now = Date.now()): string {
  if (!at) return "never";
  const s = Math.round((now - Date.parse(at)) / 1000);
  const size = Math.abs(s);
  const text = size < 90 ? `${size} s` : size < 5400 ? `${Math.round(size / 60)} min` : size < 129600 ? `${Math.round(size / 3600)} h` : `${Math.round(size / 86400)} d`;
  return s >= 0 ? `${text} ago` : `in ${text}`;
}

// clock writes a time of today without its date.
export function clock(at: string | number | undefined): string {
  if (!at) return "–";
  const t = new Date(at);
  return (t.toDateString() === new Date().toDateString() ? time : date).format(t);
}

export const short = (id: string | undefined) => (id ? id.slice(0, 8) : "–");

// protoSeconds reads a Duration of the API, "0.012s".
export const protoSeconds = (d: string | undefined) => (d ? parseFloat(d) : undefined);

// words writes the name of an enum's value as a phrase: ORPHANED_CLAIM, Orphaned claim.
export const words = (name: string | undefined) => (name ? name[0] + name.slice(1).toLowerCase().replaceAll("_", " ") : "");
