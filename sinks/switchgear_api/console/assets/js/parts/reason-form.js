import { html } from "../html.js";

export const EXPIRIES = /** @type {const} */ ([
  { seconds: 900, label: "15 min" },
  { seconds: 3600, label: "1 hour" },
  { seconds: 14_400, label: "4 hours" },
  { seconds: 86_400, label: "1 day" },
  { seconds: null, label: "Until changed" },
]);
const LONGEST_REASON = 500;

/** @param {{ value: string, onInput: (value: string) => void, placeholder?: string }} props */
export function ReasonField({ value, onInput, placeholder = "What you saw, or a ticket" }) {
  return html`<label class="field">
    <span>Reason <em>kept in the audit</em></span>
    <textarea required rows="2" maxlength=${LONGEST_REASON} placeholder=${placeholder} value=${value} onInput=${(/** @type {any} */ event) => onInput(event.target.value)}></textarea>
  </label>`;
}

/** @param {{ value: number | null, onChange: (value: number | null) => void, name?: string }} props */
export function ExpiryField({ value, onChange, name = "expiry" }) {
  return html`<fieldset class="field">
    <legend>Ends after</legend>
    <div class="segmented">
      ${EXPIRIES.map(
        (expiry) => html`<label key=${expiry.label}>
          <input type="radio" name=${name} checked=${value === expiry.seconds} onChange=${() => onChange(expiry.seconds)} /><span>${expiry.label}</span>
        </label>`,
      )}
    </div>
  </fieldset>`;
}
