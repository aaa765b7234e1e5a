import { html } from "../html.js";
import { setParams } from "../state.js";

export const RANGES = /** @type {[number, string][]} */ ([
  [1, "1 h"],
  [6, "6 h"],
  [24, "24 h"],
  [168, "7 d"],
]);

/** How many hours are shown. @param {{ hours: number }} props */
export function RangePicker({ hours }) {
  return html`<div class="segmented" role="group" aria-label="Time range">
    ${RANGES.map(([value, label]) => html`<button type="button" key=${value} aria-pressed=${hours === value} onClick=${() => setParams({ hours: value })}>${label}</button>`)}
  </div>`;
}
