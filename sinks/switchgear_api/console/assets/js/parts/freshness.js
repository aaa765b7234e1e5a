import { age, clock, duration, lasting } from "../format.js";
import { html } from "../html.js";
import { useLive } from "../live.js";
import { badProblem } from "../problems.js";
import { useNow } from "./time.js";

/** How old the data is: always on the screen. */
export function Freshness() {
  const { connection, store } = useLive();
  const now = useNow();
  const seconds = age(store.data.newest_event_at, now);
  const last =
    seconds === null ? "no calls yet" : seconds < 1.5 ? "last call now" : `last call ${duration(seconds)} ago`;
  if (connection === "lost") return html`<${Pill} kind="lost" text="Disconnected" />`;
  if (connection === "connecting") return html`<${Pill} kind="" text="Connecting …" />`;
  const problem = badProblem(store.data);
  if (problem) return html`<${Pill} kind="bad" text=${`Not live: ${problem.component}`} title=${problem.what} />`;
  if (!store.data.circuits_fresh) {
    const old = store.data.circuits_age_s;
    return html`<${Pill} kind="stale" text=${old === null ? "Circuits unknown" : `Circuits ${duration(old)} old`} title="The API doesn't follow the circuits now: states may have changed" />`;
  }
  return html`<${Pill} kind="live" text=${`Live · ${last}`} title=${store.data.newest_event_at ? `Newest stored call: ${store.data.newest_event_at}` : ""} />`;
}

/** @param {{ kind: string, text: string, title?: string }} props */
function Pill({ kind, text, title = "" }) {
  return html`<span class=${`freshness ${kind}`} title=${title}>
    <svg viewBox="0 0 10 10" aria-hidden="true">${kind === "lost" || kind === "bad" ? html`<path d="M2 2l6 6M8 2l-6 6" stroke="currentColor" stroke-width="2" />` : kind === "stale" ? html`<path d="M5 1l4.5 8h-9z" fill="currentColor" />` : html`<circle cx="5" cy="5" r="3.5" fill="currentColor" />`}</svg>
    ${text}
  </span>`;
}

/** A banner over the page while the connection is lost. */
export function LostBanner() {
  const live = useLive();
  useNow();
  if (live.connection !== "lost") return html`<div></div>`;
  const since = lasting(new Date(live.lostAt).toISOString(), Date.now());
  // The time that runs is hidden from screen readers, which would read the banner again every second.
  return html`<div class="lost-banner" role="alert"><span>Disconnected from the API<span aria-hidden="true"> ${since}</span>.</span><span>The page shows what was known at ${clock(live.store.serverNow(live.lostAt), Date.now())}. Connecting again …</span></div>`;
}
