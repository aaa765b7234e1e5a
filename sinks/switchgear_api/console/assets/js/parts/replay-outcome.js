import { count, duration, plural, usd } from "../format.js";
import { html } from "../html.js";
import { anyOpen, spansOf } from "../shapes.js";
import { Band } from "./band.js";

/** @import { ReplayResult } from "../../../types.js" */

/** @param {{ replay: { present: ReplayResult, proposed: ReplayResult, hours: number, calls?: number, truncated?: boolean } }} props */
export function ReplayOutcome({ replay }) {
  const { present, proposed } = replay;
  const until = Date.now();
  const from = until - replay.hours * 3_600_000;
  /** @type {[string, (result: ReplayResult) => string, (result: ReplayResult) => number | null, boolean][]} */
  const rows = [
    ["Opens", (each) => count(each.opens), (each) => each.opens, false],
    ["False opens", (each) => count(each.false_opens), (each) => each.false_opens, false],
    ["Time open", (each) => duration(each.minutes_open * 60), (each) => each.minutes_open, false],
    ["Calls saved", (each) => count(each.calls_saved), (each) => each.calls_saved, true],
    ["Calls lost", (each) => count(each.calls_lost), (each) => each.calls_lost ?? null, false],
    ["Tokens saved", (each) => count(each.tokens_saved), (each) => each.tokens_saved, true],
    ["Money saved", (each) => usd(each.usd_saved), (each) => each.usd_saved, true],
  ];
  return html`<section class="block" aria-label="Replay">
    <div class="toolbar"><h2>On ${replay.calls === undefined ? "the calls" : plural(replay.calls, "call")} of the last ${duration(replay.hours * 3600)}</h2></div>
    ${replay.truncated ? html`<p class="quiet">There were more calls. These are the newest: the numbers are for a part of the time.</p>` : null}
    <p class="verdict">Enforced, it would have opened ${plural(proposed.opens, "time")}${proposed.false_opens === null ? "" : `, ${count(proposed.false_opens)} of them without need`}, and saved ${plural(proposed.calls_saved, "failing call")}${proposed.tokens_saved ? ` and ${count(proposed.tokens_saved)} tokens` : ""}.</p>
    <table class="rows compare">
      <thead><tr><th scope="col"><span class="hidden-text">Number</span></th><th scope="col" class="num">Present</th><th scope="col" class="num">Proposed</th><th scope="col" class="num">Change</th></tr></thead>
      <tbody>${rows.map(([name, show, value, more]) => html`<tr key=${name}><th scope="row">${name}</th><td class="num">${show(present)}</td><td class="num"><b>${show(proposed)}</b></td><td class="num"><${Difference} before=${value(present)} after=${value(proposed)} better=${name === "Opens" || name === "Time open" ? null : more} words=${name === "Time open" ? (/** @type {number} */ minutes) => duration(minutes * 60) : name === "Money saved" ? usd : count} /></td></tr>`)}</tbody>
    </table>
    <div class="lanes">
      <div class="lane"><span>Present</span><${Band} spans=${spansOf(anyOpen(present.transitions), from, until)} from=${from} until=${until} label="Present policy" /></div>
      <div class="lane"><span>Proposed</span><${Band} spans=${spansOf(anyOpen(proposed.transitions), from, until)} from=${from} until=${until} label="Proposed policy" /></div>
    </div>
  </section>`;
}

/**
 * `better` is true if more is better. `words` shows a difference.
 * @param {{ before: number | null, after: number | null, better: boolean | null, words: (value: number) => string }} props
 */
function Difference({ before, after, better, words }) {
  if (before === null || after === null || before === after) return html`<span class="quiet">same</span>`;
  const up = after > before;
  const tone = better === null ? "" : up === better ? "good-text" : "bad-text";
  return html`<span class=${tone}>${up ? "+" : "−"}${words(Math.abs(after - before))}</span>`;
}
