import { address, toolAddress } from "../address.js";
import { count, millis } from "../format.js";
import { Fragment, html, useState } from "../html.js";
import { Icon } from "./icons.js";
import { ToolName } from "./state.js";
import { Clock } from "./time.js";
import { Value } from "./value.js";

/** @import { Call } from "../../../types.js" */

/** @param {{ call: Call }} props */
export function CallStatus({ call }) {
  return html`<span class=${`call-status ${call.status}`}><${Icon} name=${call.status} />${call.status}${call.error_class ? html` <small>${call.error_class}</small>` : null}</span>`;
}

/** @typedef {{ title: string, kind?: string, whole?: (call: Call) => string | null, render: (call: Call) => unknown }} Column */

/** The columns after the time. A new one is one entry; `whole` is the text of a cell that may be cut. @type {Column[]} */
const COLUMNS = [
  { title: "Tool", render: ({ tool }) => html`<a href=${toolAddress(tool)}><${ToolName} name=${tool} /></a>` },
  { title: "Status", render: (call) => html`<${CallStatus} call=${call} />` },
  { title: "Duration", kind: "num", render: (call) => millis(call.duration_ms) },
  {
    title: "Error",
    kind: "grow",
    whole: (call) => call.error_message,
    render: (call) => html`${call.error_type ? html`<b>${call.error_type}</b> ` : null}${call.error_message ?? ""}`,
  },
  { title: "Service", kind: "medium", render: (call) => call.service ?? "–" },
  { title: "Tokens", kind: "num roomy", render: (call) => (call.tokens ? count(call.tokens) : "–") },
];

/**
 * Calls, newest first or in their order. A row opens to everything that is stored about its call.
 * @param {{ calls: Call[], withTool?: boolean, label: string }} props
 */
export function CallsTable({ calls, withTool = true, label }) {
  const [open, setOpen] = useState("");
  const columns = withTool ? COLUMNS : COLUMNS.slice(1);
  return html`<div class="scroll" tabindex="0"><table class="rows calls">
    <caption class="hidden-text">${label}</caption>
    <thead><tr><th scope="col">Time</th>${columns.map(({ title, kind }) => html`<th key=${title} scope="col" class=${kind}>${title}</th>`)}</tr></thead>
    <tbody>
      ${calls.map((call) => {
        const shown = open === call.metric_id;
        return html`<${Fragment} key=${call.metric_id}>
          <tr class=${call.status}>
            <th scope="row"><button type="button" class="opener" data-item aria-expanded=${shown} onClick=${() => setOpen(shown ? "" : call.metric_id)}><span class="hidden-text">Details of the call at </span><${Clock} at=${call.at} millis /></button></th>
            ${columns.map(({ title, kind, whole, render }) => html`<td key=${title} class=${whole ? `cut ${kind}` : kind} title=${whole?.(call)}>${render(call)}</td>`)}
          </tr>
          ${shown ? html`<tr class="details"><td colspan=${columns.length + 1}><${CallDetails} call=${call} /></td></tr>` : null}
        <//>`;
      })}
    </tbody>
  </table></div>`;
}

/** @param {{ call: Call }} props */
function CallDetails({ call }) {
  const rest = Object.entries(call).filter(([, value]) => value !== null && value !== "" && value !== undefined);
  return html`<dl class="pairs">
    ${rest.map(([name, value]) => html`<div key=${name}><dt>${name.replaceAll("_", " ")}</dt><dd class="mono">${name === "session_id" ? html`<a class="link" href=${address("/calls", { session: value })}>${String(value)}</a>` : html`<${Value} name=${name} value=${value} exact />`}</dd></div>`)}
  </dl>`;
}
