import { send } from "../api.js";
import { html, useState } from "../html.js";
import { valuesIn } from "../policies.js";
import { undo } from "../undo.js";
import { Changes } from "./changes.js";
import { ErrorNotice } from "./notices.js";
import { ReasonField } from "./reason-form.js";
import { Sheet } from "./sheet.js";
import { toast } from "./toasts.js";

/** @import { CommandAnswer } from "../../../types.js" */

/** @param {{ pattern: string, policy: Record<string, unknown>, present: Record<string, unknown>, mode: string, onClose: () => void, onApplied: () => void }} props */
export function ApplyDialog({ pattern, policy, present, mode, onClose, onApplied }) {
  const [reason, setReason] = useState("");
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  const [busy, setBusy] = useState(false);
  const title = mode === "enforce" ? "Enforce the policy" : "Apply as metrics only";
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setBusy(true);
    try {
      const answer = /** @type {CommandAnswer} */ (
        await send("PUT", `/v1/policies/${encodeURIComponent(pattern)}`, { policy, mode, reason })
      );
      onApplied();
      toast({
        title,
        text: pattern,
        action:
          answer.audit_id && answer.undoable !== false
            ? {
                label: "Undo",
                run: () =>
                  void undo(answer.audit_id ?? "", `${title}: ${pattern}`, `Undo of: ${reason}`).then(onApplied),
              }
            : undefined,
      });
      onClose();
    } catch (problem) {
      setError(/** @type {Error} */ (problem));
      setBusy(false);
    }
  };
  return html`<${Sheet} label=${title} onClose=${onClose}><form onSubmit=${submit}>
    <div class="sheet-body">
      <div class="sheet-head"><h2>${title}</h2><p class="quiet">For <code>${pattern}</code>. ${mode === "enforce" ? "From now on it refuses calls by these values." : "It refuses nothing. What would have opened is reported."}</p></div>
      <${ErrorNotice} error=${error} />
      <section class="preview" aria-label="What changes"><${Changes} before=${valuesIn({ mode: "enforce", ...present }, { ...policy, mode })} after=${{ ...policy, mode }} /></section>
      <${ReasonField} value=${reason} onInput=${setReason} />
    </div>
    <div class="sheet-foot"><button type="button" class="button" onClick=${onClose}>Cancel</button><button type="submit" class="button primary" disabled=${busy || !reason.trim()}>${busy ? "Sending …" : title}</button></div>
  </form><//>`;
}
