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

/**
 * Calls, newest first or in their order. A row opens to everything that is stored about its call.
 * @param {{ calls: Call[], withTool?: boolean, label: string }} props
 */
export function CallsTable({ calls, withTool = true, label }) {
  const [open, setOpen] = useState("");
  const columns = withTool ? 7 : 6;
  return html`<div class="scroll" tabindex="0"><table class="rows calls">
    <caption class="hidden-text">${label}</caption>
    <thead><tr>
      <th scope="col">Time</th>${withTool ? html`<th scope="col">Tool</th>` : null}<th scope="col">Status</th><th scope="col" class="num">Duration</th><th scope="col" class="grow">Error</th><th scope="col" class="medium">Service</th><th scope="col" class="num roomy">Tokens</th>
    </tr></thead>
    <tbody>
      ${calls.map((call) => {
        const shown = open === call.metric_id;
        return html`<${Fragment} key=${call.metric_id}>
          <tr class=${call.status}>
            <th scope="row"><button type="button" class="opener" data-item aria-expanded=${shown} onClick=${() => setOpen(shown ? "" : call.metric_id)}><span class="hidden-text">Details of the call at </span><${Clock} at=${call.at} millis /></button></th>
            ${withTool ? html`<td><a href=${toolAddress(call.tool)}><${ToolName} name=${call.tool} /></a></td>` : null}
            <td><${CallStatus} call=${call} /></td>
            <td class="num">${millis(call.duration_ms)}</td>
            <td class="cut grow" title=${call.error_message ?? ""}>${call.error_type ? html`<b>${call.error_type}</b> ` : null}${call.error_message ?? ""}</td>
            <td class="medium">${call.service ?? "–"}</td>
            <td class="num roomy">${call.tokens ? count(call.tokens) : "–"}</td>
          </tr>
          ${shown ? html`<tr class="details"><td colspan=${columns}><${CallDetails} call=${call} /></td></tr>` : null}
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
