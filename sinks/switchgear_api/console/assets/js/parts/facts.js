import { html } from "../html.js";

/** @import { Saved, Waste } from "../../../types.js" */
import { count, duration, usd } from "../format.js";

/** A short fact with its name above. Without a value there is no fact. */
export function Fact(
  /** @type {{ name: string, tone?: string, note?: unknown, title?: string, children?: unknown }} */ {
    name,
    tone = "",
    note,
    title,
    children,
  },
) {
  return html`<div class=${`fact ${tone}`} title=${title ?? ""}>
    <dt>${name}</dt>
    <dd>${children}${note ? html`<small>${note}</small>` : null}</dd>
  </div>`;
}

/** @param {{ wasted: Waste, name?: string }} props */
export function Wasted({ wasted, name = "Wasted" }) {
  const money = wasted.usd ? usd(wasted.usd) : null;
  const tokens = `${count(wasted.tokens)} tokens`;
  return html`<${Fact} name=${name} note=${[money && wasted.tokens ? tokens : "", duration(wasted.seconds)].filter(Boolean).join(", ")} title=${`${count(wasted.calls)} failed calls, which took ${duration(wasted.seconds)}`}>
    ${money ?? (wasted.tokens ? tokens : plainCalls(wasted.calls))}
  <//>`;
}

/** @param {{ saved: Saved, name?: string }} props */
export function SavedFact({ saved, name = "Saved" }) {
  const money = saved.usd ? `≈ ${usd(saved.usd)}` : null;
  const tokens = `≈ ${count(saved.tokens)} tokens`;
  return html`<${Fact} name=${name} note=${[money && saved.tokens ? tokens.replace("≈ ", "") : "", plainCalls(saved.refused)].filter(Boolean).join(", ")} title="An estimate: refused calls × the mean cost of a failed call">
    ${money ?? (saved.tokens ? tokens : `≈ ${duration(saved.seconds)}`)}
  <//>`;
}

/** @param {number} calls */
const plainCalls = (calls) => `${count(calls)} ${calls === 1 ? "call" : "calls"}`;
