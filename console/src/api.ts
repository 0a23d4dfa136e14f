// The REST API as the console uses it: with the token of whoever looks, if there is one.

export type Bag = Record<string, any>;

// Refusal is an error that the gateway answered, or that kept an answer from coming.
export class Refusal extends Error {
  constructor(public status: number, public reason: string, message: string, public details: Bag[] = []) {
    super(message);
  }
  // of gives the detail of a type, such as cellgate.v1.NoValidHost.
  of(type: string): Bag | undefined {
    return this.details.find((d) => d["@type"] === "type.googleapis.com/" + type);
  }
}

const tokenKey = "cellgate.token";
let token = sessionStorage.getItem(tokenKey) ?? "";
let denied: () => void = () => {};

// signIn keeps a token until the tab is closed; an empty one signs out.
export function signIn(secret: string) {
  token = secret.trim();
  if (token) sessionStorage.setItem(tokenKey, token);
  else sessionStorage.removeItem(tokenKey);
}

export const hasToken = () => token !== "";

// onDenied is called when the gateway does not know who asks.
export function onDenied(f: () => void) {
  denied = f;
}

function headers(more: Record<string, string> = {}): HeadersInit {
  return token ? { ...more, Authorization: "Bearer " + token } : more;
}

async function refusalOf(answer: Response): Promise<Refusal> {
  const text = await answer.text();
  if (answer.status === 401) denied();
  try {
    const e = JSON.parse(text);
    return new Refusal(answer.status, e.reason, e.message, e.details);
  } catch {
    return new Refusal(answer.status, "HTTP_" + answer.status, text.slice(0, 200) || answer.statusText);
  }
}

async function send(path: string, init: RequestInit): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(path, init);
  } catch (e) {
    if (init.signal?.aborted) throw e;
    throw new Refusal(0, "UNREACHABLE", "The gateway does not answer.");
  }
  if (!answer.ok) throw await refusalOf(answer);
  return answer;
}

export type Query = Record<string, string | number | boolean | undefined>;

// pathOf gives a path with the parameters that are set.
export function pathOf(path: string, query: Query = {}): string {
  const set = Object.entries(query).filter(([, v]) => v !== undefined && v !== "" && v !== false);
  return set.length ? path + "?" + new URLSearchParams(set.map(([k, v]) => [k, String(v)])) : path;
}

export async function get<T = Bag>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  return (await send(pathOf(path, query), { headers: headers(), signal })).json();
}

export async function getText(path: string, signal?: AbortSignal): Promise<string> {
  return (await send(path, { headers: headers(), signal })).text();
}

export async function post<T = Bag>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  return (await send(path, { method: "POST", headers: headers({ "Content-Type": "application/json" }), body: JSON.stringify(body), signal })).json();
}

// A gateway sends an event or a comment about every 15 s.
const mostSilence = 30_000;

// events reads GET /v1/events until the signal ends it, the stream breaks or is silent for mostSilence. EventSource
// cannot carry a token.
export async function events(on: (event: string, data: any) => void, signal: AbortSignal): Promise<void> {
  const silent = new AbortController();
  let timer = 0;
  const heard = () => {
    clearTimeout(timer);
    timer = window.setTimeout(() => silent.abort(), mostSilence);
  };
  heard();
  try {
    const answer = await send("/v1/events", { headers: headers(), signal: AbortSignal.any([signal, silent.signal]) });
    const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      heard();
      if (done) return;
      text += value;
      for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
        let event = "message";
        let data = "";
        for (const line of text.slice(0, end).split("\n")) {
          if (line.startsWith("event: ")) event = line.slice(7);
          else if (line.startsWith("data: ")) data += line.slice(6);
        }
        if (data) on(event, JSON.parse(data));
      }
    }
  } catch (e) {
    throw silent.signal.aborted ? new Refusal(0, "UNREACHABLE", "The gateway does not answer.") : e;
  } finally {
    clearTimeout(timer);
  }
}
