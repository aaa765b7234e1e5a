import { html } from "../html.js";
import { plain } from "../format.js";

/** @param {unknown} value */
const exactly = (value) => JSON.stringify(value ?? null);

/**
 * What differs between two records, value by value.
 * @param {{ before: Record<string, unknown> | null, after: Record<string, unknown> | null, labels?: Record<string, (value: unknown) => unknown> }} props
 */
export function Changes({ before, after, labels = {} }) {
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])];
  const changed = names.filter((name) => exactly(before?.[name]) !== exactly(after?.[name]));
  if (!changed.length) return html`<p class="quiet">Nothing changes.</p>`;
  const show = (/** @type {string} */ name, /** @type {unknown} */ value) =>
    Object.hasOwn(labels, name) ? labels[name]?.(value) : plain(value);
  return html`<table class="changes">
    <thead class="hidden-text"><tr><th>Value</th><th>Now</th><th>Then</th></tr></thead>
    <tbody>
      ${changed.map(
        (name) => html`<tr key=${name}>
          <th scope="row">${name.replaceAll("_", " ")}</th>
          <td class="was">${show(name, before?.[name])}</td>
          <td class="becomes">${show(name, after?.[name])}</td>
        </tr>`,
      )}
    </tbody>
  </table>`;
}
