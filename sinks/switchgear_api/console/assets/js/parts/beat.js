import { html } from "../html.js";
import { beatPaths } from "../shapes.js";
import { count } from "../format.js";

/** @import { Minutes } from "../../../types.js" */

/** @param {number[]} numbers */
const total = (numbers) => numbers.reduce((sum, number) => sum + number, 0);

/**
 * The last hour of a tool, a bar a minute.
 * @param {{ beat: Minutes, height?: number }} props
 */
export function Beat({ beat, height = 18 }) {
  const { good, bad, width } = beatPaths(beat, height);
  const [calls, errors] = [total(beat.calls), total(beat.errors)];
  return html`<svg class="beat" viewBox=${`0 0 ${width} ${height}`} width=${width} height=${height} preserveAspectRatio="none" role="img" aria-label=${`Last hour: ${count(calls)} calls, ${count(errors)} errors`}>
    <path class="rest" d=${`M0 ${height - 0.5}h${width}`} />
    <path class="good" d=${good} />
    <path class="bad" d=${bad} />
  </svg>`;
}
