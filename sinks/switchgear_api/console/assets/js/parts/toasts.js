import { html, useEffect, useState } from "../html.js";
import { Icon } from "./icons.js";

/** @typedef {{ id: number, title: string, text?: string, action?: { label: string, run: () => void } }} Toast */

const SHOWN_MS = 12_000;
/** What can be undone stays long enough to read it, to think, and to find the button with a keyboard. */
const WITH_ACTION_MS = 60_000;
let next = 1;
/** @type {Toast[]} */
let toasts = [];
/** @type {() => void} */
let changed = () => undefined;

/** @param {Omit<Toast, "id">} toast */
export function toast(toast) {
  const id = next++;
  toasts = [...toasts, { ...toast, id }].slice(-3);
  changed();
  setTimeout(() => dismiss(id), toast.action ? WITH_ACTION_MS : SHOWN_MS);
}

/** Whoever logs in next must not see them, and not undo what they name. */
export function forgetToasts() {
  toasts = [];
  changed();
}

/** @param {number} id */
function dismiss(id) {
  toasts = toasts.filter((each) => each.id !== id);
  changed();
}

export function Toasts() {
  const [, setRound] = useState(0);
  useEffect(() => {
    changed = () => setRound((round) => round + 1);
  }, []);
  return html`<div class="toasts" role="status">
    ${toasts.map(
      (each) => html`<div class="toast" key=${each.id}>
        <div><b>${each.title}</b>${each.text ? html`<p>${each.text}</p>` : null}</div>
        ${
          each.action
            ? html`<button type="button" class="button" onClick=${() => {
                dismiss(each.id);
                each.action?.run();
              }}><${Icon} name="undo" />${each.action.label}</button>`
            : null
        }
        <button type="button" class="icon-button" aria-label="Dismiss" onClick=${() => dismiss(each.id)}><${Icon} name="close" /></button>
      </div>`,
    )}
  </div>`;
}
