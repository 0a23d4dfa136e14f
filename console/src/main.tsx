import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { hasToken, onDenied, signIn } from "./api";
import { follow, useLive } from "./live";
import { Badge, Link } from "./ui";
import { CapacityPage } from "./pages/capacity";
import { CellPage } from "./pages/cell";
import { ClaimsPage } from "./pages/claims";
import { DecisionPage, DecisionsPage } from "./pages/decisions";
import { HostPage } from "./pages/host";
import { Overview } from "./pages/overview";
import { ReferencePage } from "./pages/reference";
import { TryPage } from "./pages/try";
import { UpgradePage } from "./pages/upgrade";
import "./style.css";

// A page shows a path: the rest of it after its name, and its parameters.
export interface Where {
  rest: string[];
  query: URLSearchParams;
}

const pages: { name: string; title: string; menu: boolean; show: (at: Where) => preact.JSX.Element }[] = [
  { name: "", title: "Overview", menu: true, show: () => <Overview /> },
  { name: "cells", title: "Cells", menu: false, show: ({ rest }) => (rest[0] ? <CellPage name={rest[0]} /> : <Overview />) },
  { name: "hosts", title: "Host", menu: false, show: ({ rest }) => <HostPage uuid={rest[0] ?? ""} /> },
  { name: "decisions", title: "Decisions", menu: true, show: ({ rest, query }) => (rest[0] ? <DecisionPage id={rest[0]} /> : <DecisionsPage query={query} />) },
  { name: "try", title: "Try a request", menu: true, show: () => <TryPage /> },
  { name: "capacity", title: "Capacity", menu: true, show: () => <CapacityPage /> },
  { name: "upgrade", title: "Upgrade", menu: true, show: () => <UpgradePage /> },
  { name: "claims", title: "Claims and findings", menu: true, show: () => <ClaimsPage /> },
  { name: "api", title: "API", menu: true, show: ({ rest }) => <ReferencePage pick={rest[0] ?? ""} /> },
];

// decode gives a part of a path as it is if somebody typed what cannot be decoded.
function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function here(): { name: string; at: Where } {
  const [path, query = ""] = location.hash.slice(1).split("?");
  const [name = "", ...rest] = path.split("/").filter(Boolean).map(decode);
  return { name, at: { rest, query: new URLSearchParams(query) } };
}

const themes = ["auto", "light", "dark"];

function useTheme(): [string, () => void] {
  const [theme, set] = useState(localStorage.getItem("cellgate.theme") ?? "auto");
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
    localStorage.setItem("cellgate.theme", theme);
    dispatchEvent(new Event("themechange"));
  }, [theme]);
  return [theme, () => set(themes[(themes.indexOf(theme) + 1) % themes.length])];
}

function App() {
  const [where, setWhere] = useState(here);
  const [theme, nextTheme] = useTheme();
  const live = useLive();
  const [denied, setDenied] = useState(false);
  useEffect(() => {
    const moved = () => {
      setWhere(here());
      // The reader of a screen begins at the new page.
      requestAnimationFrame(() => document.querySelector<HTMLElement>("h1")?.focus({ preventScroll: true }));
      scrollTo(0, 0);
    };
    addEventListener("hashchange", moved);
    onDenied(() => setDenied(true));
    follow();
    return () => removeEventListener("hashchange", moved);
  }, []);
  const enter = (secret: string) => {
    signIn(secret);
    setDenied(false);
    follow();
  };
  const page = pages.find((p) => p.name === where.name);
  return (
    <>
      <a class="skip" href="#main" onClick={(e) => { e.preventDefault(); document.getElementById("main")?.focus(); }}>Skip to the page</a>
      <header>
        <Link to="/" class="brand"><img src="/favicon.svg" alt="" width="24" height="24" /> cellgate</Link>
        <nav aria-label="Pages">
          {pages.filter((p) => p.menu).map((p) => (
            <a key={p.name} href={"#/" + p.name} aria-current={p.name === where.name ? "page" : undefined}>{p.title}</a>
          ))}
        </nav>
        <div class="header-end">
          {!denied && <span role="status">{live.state === "live" ? <Badge tone="good">live</Badge> : <Badge tone="warn" title={live.problem}>connecting</Badge>}</span>}
          <button class="quiet-button" onClick={nextTheme} aria-label={`Theme: ${theme}. Change it`}>{{ auto: "◐", light: "☀", dark: "☾" }[theme]}</button>
          {hasToken() && !denied && <button class="quiet-button" onClick={() => { signIn(""); location.reload(); }}>Sign out</button>}
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        {live.state === "waiting" && live.problem && <div class="problem" role="alert">{live.problem}{live.cells && " What is shown is from before."}</div>}
        {denied ? <SignIn enter={enter} problem={live.problem} /> : page ? page.show(where.at) : <p>There is no page “{where.name}”. <Link to="/">Overview</Link></p>}
      </main>
    </>
  );
}

function SignIn({ enter, problem }: { enter: (secret: string) => void; problem: string }) {
  const [secret, set] = useState("");
  return (
    <form class="card sign-in" onSubmit={(e) => { e.preventDefault(); enter(secret); }}>
      <h1>Sign in</h1>
      <p>This gateway asks who you are. Paste a token of the role <code>reader</code> or <code>operator</code>, as <code>cellgate token</code> makes it. It is kept until you close this tab.</p>
      {problem && <div class="problem" role="alert">{problem}</div>}
      <label>Token <input type="password" autocomplete="off" required value={secret} onInput={(e) => set(e.currentTarget.value)} /></label>
      <button class="primary">Sign in</button>
    </form>
  );
}

render(<App />, document.getElementById("app")!);
