import { get, useResource } from "../api.js";
import { duration, plural } from "../format.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { useLive } from "../live.js";
import { CallsTable } from "../parts/calls-table.js";
import { Empty, ErrorNotice, Loaded, Loading } from "../parts/notices.js";
import { setParams } from "../state.js";

/** @import { Call } from "../../../types.js" */

const STATUSES = ["success", "error", "timeout", "cancelled", "rejected"];
const CLASSES = [
  "transport",
  "timeout",
  "server",
  "rate_limited",
  "tool",
  "invalid_input",
  "auth",
  "cancelled",
  "policy",
  "unknown",
];
const WINDOWS = /** @type {[string, string][]} */ ([
  ["1", "Last hour"],
  ["6", "Last 6 hours"],
  ["24", "Last day"],
  ["168", "Last week"],
]);
const NAMES = ["tool", "status", "class", "user", "session", "service", "text"];
const TYPING_MS = 250;
/** The API's largest page. */
const MOST_OF_SESSION = 1_000;

/** @param {{ route: { params: Record<string, string> } }} props */
export function CallsPage({ route }) {
  const { params } = route;
  const only = params.session && !NAMES.some((name) => name !== "session" && params[name]);
  return html`<div class="page">
    <${Filters} params=${params} />
    ${only ? html`<${SessionCalls} id=${params.session ?? ""} />` : html`<${FoundCalls} params=${params} />`}
  </div>`;
}

/** @param {{ params: Record<string, string> }} props */
function Filters({ params }) {
  const { store } = useLive();
  const [typed, setTyped] = useState(/** @type {Record<string, string>} */ ({}));
  useEffect(() => {
    if (!Object.keys(typed).length) return undefined;
    const timer = setTimeout(() => {
      setParams(typed);
      setTyped({});
    }, TYPING_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  const field = (/** @type {string} */ name, /** @type {string} */ label, extra = {}) =>
    html`<label class="field"><span>${label}</span><input type="search" value=${typed[name] ?? params[name] ?? ""} onInput=${(/** @type {any} */ event) => setTyped({ ...typed, [name]: event.target.value })} ...${extra} /></label>`;
  const choice = (/** @type {string} */ name, /** @type {string} */ label, /** @type {string[]} */ values) =>
    html`<label class="field"><span>${label}</span><select value=${params[name] ?? ""} onChange=${(/** @type {any} */ event) => setParams({ [name]: event.target.value })}><option value="">Any</option>${values.map((value) => html`<option key=${value} value=${value}>${value.replaceAll("_", " ")}</option>`)}</select></label>`;
  return html`<form class="filters" role="search" aria-label="Calls" onSubmit=${(/** @type {Event} */ event) => {
    event.preventDefault();
    setParams(typed);
  }}>
    ${field("text", "Text of the error", { placeholder: "timed out" })}
    ${field("tool", "Tool", { list: "call-tools" })}
    <datalist id="call-tools">${[...store.tools.keys()].slice(0, 500).map((name) => html`<option key=${name} value=${name}></option>`)}</datalist>
    ${choice("status", "Status", STATUSES)} ${choice("class", "Class", CLASSES)}
    ${field("service", "Service")} ${field("user", "User")} ${field("session", "Session")}
    <label class="field"><span>When</span><select value=${params.hours ?? "24"} onChange=${(/** @type {any} */ event) => setParams({ hours: event.target.value })}>${WINDOWS.map(([hours, label]) => html`<option key=${hours} value=${hours}>${label}</option>`)}</select></label>
    ${
      NAMES.some((name) => params[name])
        ? html`<button type="button" class="button" onClick=${() => {
            setTyped({});
            setParams(Object.fromEntries(NAMES.map((name) => [name, ""])));
          }}>Clear</button>`
        : null
    }
  </form>`;
}

/** @param {{ params: Record<string, string> }} props */
function FoundCalls({ params }) {
  const { store } = useLive();
  const key = JSON.stringify([params.hours, ...NAMES.map((name) => params[name])]);
  const [found, setFound] = useState(/** @type {{ items: Call[], next: string | null } | null} */ (null));
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  const [busy, setBusy] = useState(false);
  const aborter = useRef(/** @type {AbortController | null} */ (null));
  const load = async (/** @type {string | null} */ after) => {
    aborter.current?.abort(); // two answers at once would mix two searches
    aborter.current = new AbortController();
    const { signal } = aborter.current;
    setBusy(true);
    const since = new Date(store.serverNow(Date.now()) - Number(params.hours ?? 24) * 3_600_000).toISOString();
    try {
      const asked = Object.fromEntries(NAMES.map((name) => [name, params[name]]));
      const page = /** @type {any} */ (await get("/v1/calls", { ...asked, since, after, limit: 50 }, signal));
      const items = page.items ?? page.calls ?? [];
      setFound((before) => ({ items: after && before ? [...before.items, ...items] : items, next: page.next ?? null }));
      setError(null);
    } catch (problem) {
      if (!signal.aborted) setError(/** @type {Error} */ (problem));
    }
    if (!signal.aborted) setBusy(false);
  };
  useEffect(() => {
    void load(null);
    return () => aborter.current?.abort();
  }, [key]);
  return html`<section class="block" aria-label="Found calls" aria-busy=${busy}>
    <${ErrorNotice} error=${error} />
    ${found === null ? (error ? null : html`<${Loading} rows=${10} />`) : found.items.length ? html`<${CallsTable} calls=${found.items} label="Found calls" />` : html`<${Empty} title="No call fits">Take a filter away, or look further back.<//>`}
    ${found?.next ? html`<button type="button" class="button wide" disabled=${busy} onClick=${() => load(found.next)}>Show more</button>` : null}
  </section>`;
}

/** The calls of one session in their order, and how long the agent did something else between them. @param {{ id: string }} props */
function SessionCalls({ id }) {
  const resource = useResource(`/v1/sessions/${encodeURIComponent(id)}/calls`, { limit: MOST_OF_SESSION });
  return html`<section class="block" aria-label="Session"><${Loaded} resource=${resource} rows=${8}>
    ${(/** @type {any} */ answer) => {
      const calls = /** @type {Call[]} */ (answer.items ?? answer.calls ?? []);
      if (!calls.length) return html`<${Empty} title="No call of this session is stored" />`;
      const [first, last] = [calls[0], calls.at(-1)];
      const length = (Date.parse(last?.at ?? "") - Date.parse(first?.at ?? "")) / 1000;
      const failed = calls.filter((call) => call.status !== "success").length;
      return html`<div class="toolbar"><h2>Session <span class="mono">${id}</span></h2><span class="quiet">${answer.next ? "The first " : ""}${plural(calls.length, "call")} in ${duration(length)}, ${failed} without success, in their order</span></div><${CallsTable} calls=${calls} label="Calls of the session" />`;
    }}
  <//></section>`;
}
