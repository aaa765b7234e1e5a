import { useResource } from "../api.js";
import { plain } from "../format.js";
import { html, useState } from "../html.js";
import { Icon } from "../parts/icons.js";
import { Empty, Loaded } from "../parts/notices.js";
import { ReasonField } from "../parts/reason-form.js";
import { Sheet } from "../parts/sheet.js";
import { Clock } from "../parts/time.js";
import { mayOperate } from "../session.js";
import { setParams } from "../state.js";
import { stateLabel } from "../states.js";
import { undo } from "../undo.js";

/** @import { AuditItem } from "../../../types.js" */

/** @param {{ route: { params: Record<string, string> } }} props */
export function AuditPage({ route }) {
  const resource = useResource("/v1/audit", { after: route.params.after });
  const [undoing, setUndoing] = useState(/** @type {AuditItem | null} */ (null));
  return html`<div class="page"><section class="block" aria-label="Audit"><${Loaded} resource=${resource} rows=${10}>
    ${(/** @type {any} */ answer) => {
      const items = /** @type {AuditItem[]} */ (answer.items ?? []);
      if (!items.length)
        return html`<${Empty} title="No operator has acted yet">Commands, policies and retried letters appear here, with who, when and why.<//>`;
      return html`<div class="scroll" tabindex="0"><table class="rows"><caption class="hidden-text">Actions of operators</caption>
        <thead><tr><th scope="col">Time</th><th scope="col">Who</th><th scope="col">Action</th><th scope="col">On</th><th scope="col" class="grow">Reason</th><th scope="col" class="roomy">Detail</th><th scope="col"><span class="hidden-text">Undo</span></th></tr></thead>
        <tbody>${items.map(
          (item) => html`<tr key=${item.audit_id}>
          <th scope="row"><${Clock} at=${item.at} /></th>
          <td title=${item.address ?? ""}>${item.actor ?? "–"}</td>
          <td>${item.undo_of ? html`<span class="tag">Undo</span> ` : null}${item.action.replaceAll("_", " ")}</td>
          <td class="mono cut">${item.subject}</td>
          <td class="cut grow" title=${item.reason ?? ""}>${item.reason ?? "–"}</td>
          <td class="roomy"><${Detail} item=${item} /></td>
          <td class="num">${item.undoable && mayOperate() ? html`<button type="button" class="button" data-item onClick=${() => setUndoing(item)}><${Icon} name="undo" />Undo<span class="hidden-text"> ${item.action} on ${item.subject}</span></button>` : null}</td>
        </tr>`,
        )}</tbody>
      </table></div>
      ${answer.next ? html`<button type="button" class="button wide" onClick=${() => setParams({ after: answer.next })}>Older actions</button>` : null}`;
    }}
  <//></section>
  ${undoing ? html`<${UndoDialog} item=${undoing} onClose=${() => setUndoing(null)} onDone=${resource.reload} />` : null}
  </div>`;
}

/** What came of an action: the states, or why it failed. @param {{ item: AuditItem }} props */
function Detail({ item }) {
  const [from, to] = [item.before?.state, item.after?.state];
  if (item.outcome === "failed" || item.outcome === "refused")
    return html`<span class="bad-text">${item.outcome} ${item.detail ? plain(item.detail) : ""}</span>`;
  if (item.undone_by) return html`<span class="quiet">undone</span>`;
  if (from && to && from !== to)
    return html`<span class="quiet">${stateLabel(String(from))} → ${stateLabel(String(to))}</span>`;
  return html`<span class="quiet">${item.detail ? plain(item.detail) : ""}</span>`;
}

/** @param {{ item: AuditItem, onClose: () => void, onDone: () => void }} props */
function UndoDialog({ item, onClose, onDone }) {
  const [reason, setReason] = useState("");
  const [busy, setBusy] = useState(false);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setBusy(true);
    await undo(item.audit_id, `${item.action} on ${item.subject}`, reason);
    onDone();
    onClose();
  };
  return html`<${Sheet} label="Undo" onClose=${onClose}><form onSubmit=${submit}>
    <div class="sheet-body"><div class="sheet-head"><h2>Undo ${item.action.replaceAll("_", " ")}</h2><p class="quiet">On <code>${item.subject}</code>, by ${item.actor ?? "an operator"}. What was before comes back.</p></div><${ReasonField} value=${reason} onInput=${setReason} /></div>
    <div class="sheet-foot"><button type="button" class="button" onClick=${onClose}>Cancel</button><button type="submit" class="button primary" disabled=${busy || !reason.trim()}>Undo</button></div>
  </form><//>`;
}
