import { toolAddress } from "../address.js";
import { count, millis, percent, plural } from "../format.js";
import { html, useMemo } from "../html.js";
import { listing } from "../listing.js";
import { localOpens } from "../store.js";
import { setParams } from "../state.js";
import { Beat } from "./beat.js";
import { Empty } from "./notices.js";
import { StateBadge, StateShape, ToolName } from "./state.js";
import { stateLabel } from "../states.js";
import { WindowedBody } from "./windowed.js";

/** @import { Row } from "../listing.js" */
/** @import { Family, Tool } from "../../../types.js" */

const COLUMNS = [
  { key: "tool", label: "Tool", kind: "" },
  { key: "", label: "State", kind: "" },
  { key: "", label: "Last hour", kind: "roomy" },
  { key: "calls", label: "Calls", kind: "num" },
  { key: "errors", label: "Errors", kind: "num medium" },
  { key: "rate", label: "Error rate", kind: "num" },
  { key: "refused", label: "Refused", kind: "num roomy" },
  { key: "p50", label: "p50", kind: "num roomy" },
  { key: "p95", label: "p95", kind: "num medium" },
  { key: "p99", label: "p99", kind: "num roomy" },
];

/**
 * @param {{ tools: Tool[], families: Map<string, Family>, params: Record<string, string>, orderKey: string, toolbar: (shown: number) => unknown }} props
 *   `orderKey` changes when rows may move; until then they stay where they are
 */
export function ToolsTable({ tools, families, params, orderKey, toolbar }) {
  const sort = params.sort ?? "";
  const how = { filter: params.q, state: params.state, sort, grouped: params.group !== "none" };
  const placed = useMemo(
    () => listing(tools, families, how),
    [orderKey, params.q, params.state, sort, params.group, tools.length],
  );
  const current = useMemo(() => new Map(tools.map((tool) => [tool.tool, tool])), [tools]);
  const rows = placed.map((row) =>
    row.kind === "tool" ? { ...row, tool: current.get(row.tool.tool) ?? row.tool } : row,
  );
  const shown = rows.filter((row) => row.kind === "tool").length;
  return html`${toolbar(shown)}<table class="tools" aria-rowcount=${rows.length + 1}>
    <caption class="hidden-text">Tools</caption>
    <thead>
      <tr>
        ${COLUMNS.map((column) => html`<${Heading} key=${column.label} column=${column} sort=${sort} />`)}
      </tr>
    </thead>
    <${WindowedBody} rows=${rows} columns=${COLUMNS.length} render=${(/** @type {Row} */ row, /** @type {number} */ index) => (row.kind === "family" ? html`<${FamilyRow} key=${`family ${row.name}`} row=${row} index=${index} />` : html`<${ToolRow} key=${row.tool.tool} row=${row} index=${index} />`)} />
  </table>${shown ? null : html`<${Empty} title="No tool fits">Change the filter, or look at the tools above.<//>`}`;
}

/** @param {{ column: typeof COLUMNS[number], sort: string }} props */
function Heading({ column, sort }) {
  const active = column.key !== "" && sort.replace("-", "") === column.key;
  const direction = !active
    ? undefined
    : sort.startsWith("-") === (column.key === "tool")
      ? "descending"
      : column.key === "tool"
        ? "ascending"
        : sort.startsWith("-")
          ? "ascending"
          : "descending";
  if (!column.key) return html`<th scope="col" class=${column.kind}>${column.label}</th>`;
  const next = active ? (sort.startsWith("-") ? "" : `-${column.key}`) : column.key;
  return html`<th scope="col" class=${column.kind} aria-sort=${direction}>
    <button type="button" class="sort" onClick=${() => setParams({ sort: next })}>${column.label}<span aria-hidden="true">${direction === "ascending" ? " ↑" : direction === "descending" ? " ↓" : ""}</span></button>
  </th>`;
}

/** The state where the screen has no room for its column. @param {{ state: string }} props */
function NarrowState({ state }) {
  return html`<span class="narrow-only"><${StateShape} state=${state} /><span class="hidden-text">${stateLabel(state)}: </span></span>`;
}

/** @param {{ row: Extract<Row, { kind: "tool" }>, index: number }} props */
function ToolRow({ row, index }) {
  const { tool, inside } = row;
  const { stats } = tool;
  return html`<tr class=${`${tool.state} ${inside ? "inside" : ""}`} aria-rowindex=${index + 2}>
    <th scope="row"><a href=${toolAddress(tool.tool)} data-row=${index}><${NarrowState} state=${tool.state} /><${ToolName} name=${tool.tool} short=${inside} /></a></th>
    <td><${StateBadge} state=${tool.state} quiet />${localOpens(tool) ? html` <span class="tag" title="Processes that opened a circuit of their own">${count(localOpens(tool))} local</span>` : null}</td>
    <td class="roomy"><${Beat} beat=${tool.beat} /></td>
    <td class="num">${count(stats.calls)}</td>
    <td class=${`num medium ${stats.errors ? "" : "zero"}`}>${count(stats.errors)}</td>
    <td class=${`num ${!stats.errors ? "zero" : (stats.error_rate ?? 0) >= 0.2 ? "bad-text" : ""}`}>${percent(stats.error_rate)}</td>
    <td class=${`num roomy ${stats.refused ? "" : "zero"}`}>${count(stats.refused)}</td>
    <td class="num roomy">${millis(stats.p50_ms)}</td>
    <td class="num medium">${millis(stats.p95_ms)}</td>
    <td class="num roomy">${millis(stats.p99_ms)}</td>
  </tr>`;
}

/** @param {{ row: Extract<Row, { kind: "family" }>, index: number }} props */
function FamilyRow({ row, index }) {
  const state = row.family?.state;
  return html`<tr class=${`family ${state ?? ""}`} aria-rowindex=${index + 2}>
    <th scope="rowgroup"><span class="family-name">${state && state !== "closed" ? html`<${NarrowState} state=${state} />` : null}<${ToolName} name=${row.name} /></span></th>
    <td>${state && state !== "closed" ? html`<${StateBadge} state=${state} quiet />` : html`<span class="quiet">${plural(row.tools.length, "tool")}</span>`}</td>
    <td colspan="8"></td>
  </tr>`;
}
