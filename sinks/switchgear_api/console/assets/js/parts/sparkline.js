import { html } from "../html.js";
import { linePath } from "../shapes.js";

/** A small line without axes. The number beside it says how much. @param {{ values: number[], tone: string }} props */
export function Sparkline({ values, tone }) {
  const [width, height] = [120, 24];
  const path = linePath(values, width, height);
  return html`<svg class=${`sparkline ${tone}`} viewBox=${`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true">
    <path class="under" d=${path ? `${path}L${width} ${height}L0 ${height}z` : ""} /><path d=${path} />
  </svg>`;
}
