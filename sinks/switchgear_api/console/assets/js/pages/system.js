import { useResource } from "../api.js";
import { plain } from "../format.js";
import { html } from "../html.js";
import { Loaded } from "../parts/notices.js";
import { Value } from "../parts/value.js";
import { WrongClocks } from "../parts/wrong-clocks.js";

const RELOAD_MS = 10_000;

/** @param {{ route: unknown }} _props */
export function SystemPage(_props) {
  const resource = useResource("/v1/console/system", {}, RELOAD_MS);
  return html`<div class="page"><${WrongClocks} /><${Loaded} resource=${resource} rows=${10}>
    ${(/** @type {Record<string, unknown>} */ answer) =>
      html`<div class="columns system">${Object.entries(answer)
        .filter(([name]) => name !== "checked_at" && name !== "problems") // these are above every page
        .map(([name, value]) => html`<${Part} key=${name} name=${name} value=${value} />`)}</div>`}
  <//></div>`;
}

/** A part of the system: a list as a table, a record as pairs. @param {{ name: string, value: unknown }} props */
function Part({ name, value }) {
  const title = name.replaceAll("_", " ");
  return html`<section class="block" aria-label=${title}><div class="toolbar"><h2 class="capital">${title}</h2></div>
    ${Array.isArray(value) ? html`<${List} items=${value} />` : typeof value === "object" && value !== null ? html`<${Pairs} record=${/** @type {Record<string, unknown>} */ (value)} />` : html`<p class="one"><${Value} name=${name} value=${value} /></p>`}
  </section>`;
}

/** @param {{ items: unknown[] }} props */
function List({ items }) {
  if (!items.length) return html`<p class="quiet one">None is known.</p>`;
  const records = items.filter((item) => typeof item === "object" && item !== null);
  if (records.length !== items.length)
    return html`<ul class="one">${items.map((item) => html`<li class="mono">${plain(item)}</li>`)}</ul>`;
  const names = [...new Set(records.flatMap((record) => Object.keys(/** @type {object} */ (record))))];
  return html`<div class="scroll" tabindex="0"><table class="rows"><thead><tr>${names.map((name) => html`<th scope="col" key=${name} class=${isNumeric(items, name) ? "num" : ""}>${name.replace(/_(s|ms|at|per_s)$/, "").replaceAll("_", " ")}</th>`)}</tr></thead>
    <tbody>${/** @type {Record<string, unknown>[]} */ (items).map((record) => html`<tr>${names.map((name) => html`<td key=${name} class=${isNumeric(items, name) ? `num ${name === "lag" && Number(record[name]) > 1000 ? "bad-text" : ""}` : name === "ready" && record[name] === false ? "bad-text" : "cut"}><${Value} name=${name} value=${record[name] ?? null} /></td>`)}</tr>`)}</tbody>
  </table></div>`;
}

/** @param {unknown[]} items @param {string} name */
const isNumeric = (items, name) =>
  items.some((item) => typeof (/** @type {Record<string, unknown>} */ (item)[name]) === "number");

/** @param {{ record: Record<string, unknown> }} props */
function Pairs({ record }) {
  return html`<dl class="pairs">${Object.entries(record)
    .filter(([, value]) => value !== null)
    .map(
      ([name, value]) =>
        html`<div key=${name}><dt>${name.replace(/_(s|ms|at|per_s)$/, "").replaceAll("_", " ")}</dt><dd>${Array.isArray(value) && value.some((item) => typeof item === "object") ? html`<${List} items=${value} />` : html`<${Value} name=${name} value=${value} />`}</dd></div>`,
    )}</dl>`;
}
