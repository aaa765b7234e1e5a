import { send } from "../api.js";
import { clock, countdown, plain } from "../format.js";
import { html, useEffect, useState } from "../html.js";
import { COMMANDS, commandLabel } from "../states.js";
import { undo } from "../undo.js";
import { Changes } from "./changes.js";
import { ErrorNotice } from "./notices.js";
import { ExpiryField, ReasonField } from "./reason-form.js";
import { Sheet } from "./sheet.js";
import { StateBadge } from "./state.js";
import { toast } from "./toasts.js";

/** @import { CommandAnswer } from "../../../types.js" */

/** @typedef {{ circuitId: string, name: string, command: string }} Asked */

/** @type {(asked: Asked) => void} */
let open = () => undefined;

/** Ask the operator about a command to a circuit. @param {Asked} asked */
export const askForCommand = (asked) => open(asked);

/** The place of the dialog, once a page. */
export function ActionDialogs() {
  const [asked, setAsked] = useState(/** @type {Asked | null} */ (null));
  useEffect(() => {
    open = setAsked;
  }, []);
  return asked
    ? html`<${ActionDialog} key=${asked.circuitId + asked.command} asked=${asked} onClose=${() => setAsked(null)} />`
    : null;
}

/** @param {{ asked: Asked, onClose: () => void }} props */
function ActionDialog({ asked, onClose }) {
  const command = COMMANDS[asked.command] ?? { label: commandLabel(asked.command), effect: "" };
  const [reason, setReason] = useState("");
  const [expiry, setExpiry] = useState(/** @type {number | null} */ (command.lasts ? 3600 : null));
  const [preview, setPreview] = useState(/** @type {CommandAnswer | null} */ (null));
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  const [busy, setBusy] = useState(false);
  const path = `/v1/circuits/${encodeURIComponent(asked.circuitId)}/commands`;
  const body = { command: asked.command, reason, expires_in_s: command.lasts ? expiry : null };

  useEffect(() => {
    let current = true;
    send("POST", path, { ...body, reason: reason || "preview", dry_run: true }).then(
      (answer) => {
        if (!current) return;
        setPreview(/** @type {CommandAnswer} */ (answer));
        setError(null);
      },
      (problem) => current && setError(problem),
    );
    return () => {
      current = false;
    };
  }, [expiry]);

  const onSubmit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (busy || !reason.trim()) return;
    setBusy(true);
    setError(null);
    try {
      const answer = /** @type {CommandAnswer} */ (await send("POST", path, { ...body, dry_run: false }));
      const what = `${command.label}: ${asked.name}`;
      toast({
        title: what,
        text: answer.detail ?? command.effect,
        action:
          answer.audit_id && answer.undoable !== false
            ? { label: "Undo", run: () => void undo(answer.audit_id ?? "", what, `Undo of: ${reason}`) }
            : undefined,
      });
      onClose();
    } catch (problem) {
      setError(/** @type {Error} */ (problem));
      setBusy(false);
    }
  };

  return html`<${Sheet} label=${`${command.label} ${asked.name}`} onClose=${onClose}>
    <form onSubmit=${onSubmit}>
      <div class="sheet-body">
        <div class="sheet-head"><h2>${command.label} <span class="mono">${asked.name}</span></h2><p class="quiet">${command.effect}</p></div>
        <${ErrorNotice} error=${error} />
        <section class="preview" aria-label="What changes" aria-busy=${preview === null && !error}>
          ${preview ? html`<${Changes} before=${preview.before} after=${withEnd(preview.after, command.lasts ? expiry : undefined)} labels=${LABELS} />` : html`<p class="quiet">${error ? "It is unknown what would change." : "Looking at what changes …"}</p>`}
        </section>
        ${command.lasts ? html`<${ExpiryField} value=${expiry} onChange=${setExpiry} />` : null}
        <${ReasonField} value=${reason} onInput=${setReason} />
      </div>
      <div class="sheet-foot">
        <button type="button" class="button" onClick=${onClose}>Cancel</button>
        <button type="submit" class=${`button ${command.danger ? "danger" : "primary"}`} disabled=${busy || !reason.trim()}>${busy ? "Sending …" : command.label}</button>
      </div>
    </form>
  <//>`;
}

/**
 * Return the state after a command with the end that the form says.
 * @param {Record<string, unknown> | null} after
 * @param {number | null | undefined} expiry seconds; undefined if the command has no end
 */
function withEnd(after, expiry) {
  if (after === null || expiry === undefined) return after;
  return { ...after, expires_at: expiry === null ? null : new Date(Date.now() + expiry * 1000).toISOString() };
}

/** @type {Record<string, (value: unknown) => unknown>} */
const LABELS = {
  state: (value) => (value ? html`<${StateBadge} state=${String(value)} quiet />` : "none"),
  expires_at: (value) => (value ? clock(String(value), Date.now()) : "never"),
  expires_in_s: (value) => (value ? countdown(Number(value)) : "never"),
  next_probe_at: (value) => (value ? clock(String(value), Date.now()) : "none"),
  since: (value) => (value ? clock(String(value), Date.now()) : "–"),
  override: (value) => (value ? plain(value) : "none"),
};
