import { plural } from "../format.js";
import { html, useMemo } from "../html.js";
import { listing } from "../listing.js";
import { setParams } from "../state.js";
import { Empty } from "./notices.js";
import { StateBadge, ToolName } from "./state.js";
import { COLUMNS, NarrowState } from "./tool-columns.js";
import { WindowedBody } from "./windowed.js";

/** @import { Row } from "../listing.js" */
/** @import { Column } from "./tool-columns.js" */
/** @import { Family, Tool } from "../../../types.js" */

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
        ${COLUMNS.map((column) => html`<${Heading} key=${column.key} column=${column} sort=${sort} />`)}
      </tr>
    </thead>
    <${WindowedBody} rows=${rows} columns=${COLUMNS.length} render=${(/** @type {Row} */ row, /** @type {number} */ index) => (row.kind === "family" ? html`<${FamilyRow} key=${`family ${row.name}`} row=${row} index=${index} />` : html`<${ToolRow} key=${row.tool.tool} row=${row} index=${index} />`)} />
  </table>${shown ? null : html`<${Empty} title="No tool fits">Change the filter, or look at the tools above.<//>`}`;
}

/** @param {{ column: Column, sort: string }} props */
function Heading({ column, sort }) {
  if (!column.value) return html`<th scope="col" class=${column.kind}>${column.title}</th>`;
  const active = sort.replace("-", "") === column.key;
  const rising = (column.key === "tool") !== sort.startsWith("-");
  const direction = !active ? undefined : rising ? "ascending" : "descending";
  const next = active ? (sort.startsWith("-") ? "" : `-${column.key}`) : column.key;
  return html`<th scope="col" class=${column.kind} aria-sort=${direction}>
    <button type="button" class="sort" onClick=${() => setParams({ sort: next })}>${column.title}<span aria-hidden="true">${!active ? "" : rising ? " ↑" : " ↓"}</span></button>
  </th>`;
}

/** @param {{ row: Extract<Row, { kind: "tool" }>, index: number }} props */
function ToolRow({ row: { tool, inside }, index }) {
  const [name, ...others] = COLUMNS.map((column) => ({ ...column, cell: column.render(tool, { inside, index }) }));
  return html`<tr class=${`${tool.state} ${inside ? "inside" : ""}`} aria-rowindex=${index + 2}>
    <th scope="row">${name?.cell}</th>
    ${others.map(({ key, kind, tone, cell }) => html`<td key=${key} class=${[kind, tone?.(tool)].filter(Boolean).join(" ")}>${cell}</td>`)}
  </tr>`;
}

/** @param {{ row: Extract<Row, { kind: "family" }>, index: number }} props */
function FamilyRow({ row, index }) {
  const state = row.family?.state;
  return html`<tr class=${`family ${state ?? ""}`} aria-rowindex=${index + 2}>
    <th scope="rowgroup"><span class="family-name">${state && state !== "closed" ? html`<${NarrowState} state=${state} />` : null}<${ToolName} name=${row.name} /></span></th>
    <td>${state && state !== "closed" ? html`<${StateBadge} state=${state} quiet />` : html`<span class="quiet">${plural(row.tools.length, "tool")}</span>`}</td>
    <td colspan=${COLUMNS.length - 2}></td>
  </tr>`;
}
