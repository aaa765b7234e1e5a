import { count, percent, plural, usd } from "../format.js";
import { html, useMemo } from "../html.js";
import { useLive } from "../live.js";
import { circuitsOldSince } from "../problems.js";
import { BrokenCard, FamilyCard } from "../parts/broken-card.js";
import { ErrorNotice, Loading } from "../parts/notices.js";
import { Sparkline } from "../parts/sparkline.js";
import { ToolsTable } from "../parts/tools-table.js";
import { WrongClocks } from "../parts/wrong-clocks.js";
import { setParams } from "../state.js";
import { STATES } from "../states.js";
import { FRESH_MS, isBroken } from "../store.js";

/** @import { Fleet, Tool } from "../../../types.js" */

const CARDS = 8;
/** Rows of the table move at most this often; a change of state moves them at once. */
const ORDER_EVERY_MS = 10_000;

/** @param {{ route: { params: Record<string, string> } }} props */
export function NowPage({ route }) {
  const live = useLive();
  const { store } = live;
  if (!live.loaded)
    return html`<div class="page">${live.error ? html`<${ErrorNotice} error=${new Error(live.error)} retry=${() => live.reload()} />` : html`<${Loading} rows=${8} />`}</div>`;
  const now = store.serverNow(Date.now());
  const tools = store.sorted();
  const families = store.toolsOfBrokenFamilies();
  const broken = tools.filter(isBroken);
  const refused = families.size
    ? tools.filter((tool) => isBroken(tool) || store.refusingFamily(tool)).length
    : broken.length;
  // A tool of a refused server is on that server's card, unless its own circuit is open too.
  const all = route.params.cards === "all";
  const cards = all ? broken : broken.slice(0, CARDS);
  const carded = new Set(cards.map((tool) => tool.tool));
  const rest = tools.filter((tool) => !carded.has(tool.tool));
  return html`<div class="page now">
    <${Summary} fleet=${store.fleet} tools=${tools} beatRevision=${store.beatRevision} broken=${broken.length} refused=${refused} servers=${families.size} oldSince=${circuitsOldSince(store.data, now)} />
    <${WrongClocks} />
    ${
      cards.length || families.size
        ? html`<section class="cards" aria-label="Not closed">
          ${[...families].map(([family, names]) => html`<${FamilyCard} key=${`family ${family.family}`} family=${family} tools=${names} lastCallAt=${store.lastCallAt(names)} />`)}
          ${cards.map((tool) => html`<${BrokenCard} key=${tool.tool} tool=${tool} fresh=${now - (store.changedAt.get(tool.tool) ?? 0) < FRESH_MS} />`)}
          ${broken.length > cards.length ? html`<button type="button" class="button wide" onClick=${() => setParams({ cards: "all" })}>${`Show ${plural(broken.length - cards.length, "more broken tool")} as cards; they are first in the table below`}</button>` : null}
        </section>`
        : null
    }
    <section class="block" aria-label="Tools">
      <${ToolsTable} toolbar=${(/** @type {number} */ shown) => html`<${Filters} params=${route.params} shown=${shown} />`} tools=${rest} families=${store.families} params=${route.params} orderKey=${`${store.orderRevision} ${Math.floor(Date.now() / ORDER_EVERY_MS)} ${carded.size}`} />
    </section>
  </div>`;
}

/** The answer in one glance. @param {{ fleet: Fleet | null, tools: Tool[], beatRevision: number, broken: number, refused: number, servers: number, oldSince: string | null }} props */
function Summary({ fleet, tools, beatRevision, broken, refused, servers, oldSince }) {
  const minutes = useMemo(() => sumBeats(tools), [beatRevision]);
  if (!fleet) return null;
  const parts = [servers ? plural(servers, "server") : "", broken ? plural(broken, "tool") : ""].filter(Boolean);
  const headline = parts.length
    ? `${parts.join(" and ")} ${servers + broken === 1 ? "refuses" : "refuse"} calls`
    : oldSince
      ? `${plural(fleet.tools, "tool")}, as of ${oldSince}`
      : fleet.tools
        ? `All ${plural(fleet.tools, "tool")} are up`
        : "No tool has been called yet";
  return html`<section class="summary" aria-label="The last hour">
    <div class=${`headline ${parts.length ? "bad" : oldSince ? "" : "good"}`}>
      <p>${headline}</p>
      <span>${oldSince ? "It is not known how they are now." : parts.length ? `${count(Math.max(0, fleet.tools - refused))} others are up` : "Nothing to do."}</span>
    </div>
    <dl class="stats">
      <div><dt>Calls, last hour</dt><dd>${count(fleet.calls)}</dd><${Sparkline} values=${minutes.calls} tone="calls" /></div>
      <div><dt>Error rate</dt><dd class=${(fleet.error_rate ?? 0) >= 0.05 ? "bad-text" : ""}>${percent(fleet.error_rate)}</dd><${Sparkline} values=${minutes.errors} tone="errors" /></div>
      <div><dt>Refused</dt><dd>${count(fleet.refused)}</dd><dd class="note">calls, last hour</dd></div>
      <div><dt>Wasted</dt><dd>${fleet.wasted.usd ? usd(fleet.wasted.usd) : count(fleet.wasted.tokens)}</dd><dd class="note">${fleet.wasted.usd ? `${count(fleet.wasted.tokens)} tokens` : "tokens"} · ${plural(fleet.wasted.calls, "call")}</dd></div>
      <div><dt>Saved</dt><dd>≈ ${fleet.saved.usd ? usd(fleet.saved.usd) : count(fleet.saved.tokens)}</dd><dd class="note">${fleet.saved.usd ? `≈ ${count(fleet.saved.tokens)} tokens` : "tokens"}</dd></div>
    </dl>
  </section>`;
}

/** @param {{ params: Record<string, string>, shown: number }} props */
function Filters({ params, shown }) {
  return html`<div class="toolbar">
    <h2>${isNarrowed(params) ? "Tools" : "Other tools"} <span class="quiet">${count(shown)}</span></h2>
    <input type="search" aria-label="Filter tools" placeholder="Filter, or a glob: mcp:*" value=${params.q ?? ""} onInput=${(/** @type {any} */ event) => setParams({ q: event.target.value })} />
    <select aria-label="State" value=${params.state ?? ""} onChange=${(/** @type {any} */ event) => setParams({ state: event.target.value })}>
      <option value="">Every state</option>
      ${Object.entries(STATES).map(([state, { label }]) => html`<option key=${state} value=${state}>${label}</option>`)}
    </select>
    <label class="check"><input type="checkbox" checked=${params.group !== "none"} onChange=${(/** @type {any} */ event) => setParams({ group: event.target.checked ? "" : "none" })} />Group by server</label>
  </div>`;
}

/** @param {Record<string, string>} params */
const isNarrowed = (params) => Boolean(params.q || params.state);

/** @param {Tool[]} tools */
function sumBeats(tools) {
  const calls = new Array(60).fill(0);
  const errors = new Array(60).fill(0);
  for (const tool of tools) {
    for (let minute = 0; minute < calls.length; minute += 1) {
      calls[minute] += tool.beat.calls[minute];
      errors[minute] += tool.beat.errors[minute];
    }
  }
  return { calls, errors };
}
