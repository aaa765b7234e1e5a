import { plain } from "../format.js";
import { html, useState } from "../html.js";
import { FIELD_GROUPS, valueOf } from "../policy-fields.js";
import { withValue, writePolicy } from "../policy-toml.js";

/** @import { Field } from "../policy-fields.js" */

/**
 * A policy as fields and as text. The text is what counts; a field changes its line.
 * @param {{ text: string, policy: Record<string, unknown>, present: Record<string, unknown>, problem: string, sample: string, onText: (text: string) => void }} props
 */
export function PolicyForm({ text, policy, present, problem, sample, onText }) {
  const onField = (/** @type {Field} */ field, /** @type {string} */ written) =>
    onText(writePolicy(withValue(policy, field.name, valueOf(field, written))));
  const [asText, setAsText] = useState(false);
  const tabs = html`<div class="segmented" role="group" aria-label="How to write it">
    <button type="button" aria-pressed=${!asText} disabled=${problem !== ""} onClick=${() => setAsText(false)}>Fields</button><button type="button" aria-pressed=${asText} onClick=${() => setAsText(true)}>TOML</button>
  </div>`;
  if (asText) {
    return html`<div>${tabs}</div>
      <label class="field"><span>Values <em>all that a policy file can have</em></span>
        <textarea class="mono editor" rows="18" spellcheck=${false} placeholder=${sample} aria-invalid=${problem !== ""} value=${text} onInput=${(/** @type {any} */ event) => onText(event.target.value)}></textarea>
      </label>
      ${problem ? html`<p class="bad-text" role="alert">${problem}</p>` : null}`;
  }
  return html`<div>${tabs}</div>
    <div class="policy-fields">
      ${FIELD_GROUPS.map(
        (group) => html`<fieldset key=${group.title}><legend>${group.title}</legend>
          ${group.fields.map((field) => html`<${FieldRow} key=${field.name} field=${field} value=${policy[field.name]} present=${present[field.name]} disabled=${problem !== ""} onInput=${(/** @type {string} */ written) => onField(field, written)} />`)}
        </fieldset>`,
      )}
    </div>
  `;
}

/** @param {{ field: Field, value: unknown, present: unknown, disabled: boolean, onInput: (written: string) => void }} props */
function FieldRow({ field, value, present, disabled, onInput }) {
  const now = present === undefined ? "" : plain(present);
  const written = value === undefined ? "" : Array.isArray(value) ? value.join(", ") : String(value);
  // The fleet's news render the page again while you type: without the draft, they would empty the field.
  const [draft, setDraft] = useState(/** @type {string | null} */ (null));
  const onChange = (/** @type {any} */ event) => {
    setDraft(null);
    onInput(event.target.value);
  };
  const choices = field.kind === "flag" ? ["true", "false"] : field.choices;
  return html`<label class=${value === undefined ? "" : "set"}><span>${field.label}${field.unit ? html` <small>${field.unit}</small>` : null}</span>
    ${
      choices
        ? html`<select disabled=${disabled} value=${written} onChange=${onChange}><option value="">${now}</option>${choices.map((choice) => html`<option key=${choice} value=${choice}>${choice}</option>`)}</select>`
        : html`<input type="text" inputmode="decimal" disabled=${disabled} placeholder=${now} value=${draft ?? written} onInput=${(/** @type {any} */ event) => setDraft(event.target.value)} onChange=${onChange} />`
    }
  </label>`;
}
