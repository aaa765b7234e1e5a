/** The columns of the table of tools. A new one is one entry; the head, the order and the rows follow. */
import { toolAddress } from "../address.js";
import { count, millis, percent } from "../format.js";
import { html } from "../html.js";
import { stateLabel } from "../states.js";
import { Beat } from "./beat.js";
import { StateBadge, StateShape, ToolName } from "./state.js";

/** @import { Tool } from "../../../types.js" */

/**
 * @typedef {object} Column
 * @property {string} key its name in the address
 * @property {string} title
 * @property {string} [kind] classes of its cells
 * @property {(tool: Tool) => number | string} [value] what sorts it: numbers the greatest first, names by the alphabet
 * @property {(tool: Tool) => string} [tone] more classes of a cell
 * @property {(tool: Tool, place: { inside: boolean, index: number }) => unknown} render
 */

/** @param {number} number */
const zero = (number) => (number ? "" : "zero");

/** @param {"p50_ms" | "p95_ms" | "p99_ms"} name @param {string} kind @returns {Column} */
const percentile = (name, kind) => ({
  key: name.slice(0, 3),
  title: name.slice(0, 3),
  kind,
  value: ({ stats }) => stats[name] ?? -1,
  render: ({ stats }) => millis(stats[name]),
});

/** @type {Column[]} */
export const COLUMNS = [
  {
    key: "tool",
    title: "Tool",
    value: (tool) => tool.tool,
    render: (tool, { inside, index }) =>
      html`<a href=${toolAddress(tool.tool)} data-row=${index}><${NarrowState} state=${tool.state} /><${ToolName} name=${tool.tool} short=${inside} /></a>`,
  },
  {
    key: "state",
    title: "State",
    render: ({ state, local_opens: local }) =>
      html`<${StateBadge} state=${state} quiet />${local.length ? html` <span class="tag" title="Processes that opened a circuit of their own">${count(local.length)} local</span>` : null}`,
  },
  { key: "beat", title: "Last hour", kind: "roomy", render: ({ beat }) => html`<${Beat} beat=${beat} />` },
  {
    key: "calls",
    title: "Calls",
    kind: "num",
    value: ({ stats }) => stats.calls,
    render: ({ stats }) => count(stats.calls),
  },
  {
    key: "errors",
    title: "Errors",
    kind: "num medium",
    value: ({ stats }) => stats.errors,
    tone: ({ stats }) => zero(stats.errors),
    render: ({ stats }) => count(stats.errors),
  },
  {
    key: "rate",
    title: "Error rate",
    kind: "num",
    value: ({ stats }) => stats.error_rate,
    tone: ({ stats }) => (stats.error_rate >= 0.2 ? "bad-text" : zero(stats.errors)),
    render: ({ stats }) => percent(stats.error_rate),
  },
  {
    key: "refused",
    title: "Refused",
    kind: "num roomy",
    value: ({ stats }) => stats.refused,
    tone: ({ stats }) => zero(stats.refused),
    render: ({ stats }) => count(stats.refused),
  },
  percentile("p50_ms", "num roomy"),
  percentile("p95_ms", "num medium"),
  percentile("p99_ms", "num roomy"),
];

/** The state where the screen has no room for its column. @param {{ state: string }} props */
export function NarrowState({ state }) {
  return html`<span class="narrow-only"><${StateShape} state=${state} /><span class="hidden-text">${stateLabel(state)}: </span></span>`;
}
