import { request } from "../api.js";
import { exactJson } from "../exact-json.js";
import { count, plural } from "../format.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { Icon } from "../parts/icons.js";
import { Empty, ErrorNotice } from "../parts/notices.js";
import { EXAMPLES } from "../sql-examples.js";
import { setParams } from "../state.js";

/** @import { SqlAnswer } from "../../../types.js" */

const KEPT = 30;
const SHOWN = 500;
const HISTORY = "switchgear.sql";

/** @returns {string[]} */
function history() {
  try {
    const kept = JSON.parse(localStorage.getItem(HISTORY) ?? "[]");
    return Array.isArray(kept) ? kept.map(String) : [];
  } catch {
    return [];
  }
}

/** @param {string} query */
function remember(query) {
  localStorage.setItem(HISTORY, JSON.stringify([query, ...history().filter((each) => each !== query)].slice(0, KEPT)));
}

/** @param {{ route: { params: Record<string, string> } }} props */
export function SqlPage({ route }) {
  const [query, setQuery] = useState(route.params.query ?? history()[0] ?? EXAMPLES[0]?.[1] ?? "");
  const [answer, setAnswer] = useState(/** @type {SqlAnswer | null} */ (null));
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  const [asked, setAsked] = useState("");
  const [busy, setBusy] = useState(false);
  const field = useRef(/** @type {HTMLTextAreaElement | null} */ (null));

  useEffect(() => {
    if (route.params.query) setQuery(route.params.query);
  }, [route.params.query]);

  const run = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (busy || !query.trim()) return;
    setBusy(true);
    setError(null);
    setParams({ query });
    try {
      setAnswer(exactJson(await (await request("POST", "/v1/sql", { body: { query } })).text()));
      setAsked(query);
      remember(query);
    } catch (problem) {
      setAnswer(null);
      setError(/** @type {Error} */ (problem));
    }
    setBusy(false);
  };
  const download = async (/** @type {string} */ format) => {
    try {
      const data = await (await request("POST", "/v1/sql", { params: { format }, body: { query: asked } })).blob();
      const link = document.createElement("a");
      link.href = URL.createObjectURL(data);
      link.download = `switchgear.${format}`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    } catch (problem) {
      setError(/** @type {Error} */ (problem));
    }
  };
  const onKey = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void run(event);
  };

  return html`<div class="page sql">
    <form class="block" onSubmit=${run} aria-label="Query">
      <textarea ref=${field} class="mono editor" rows="8" spellcheck=${false} aria-label="SQL" value=${query} onInput=${(/** @type {any} */ event) => setQuery(event.target.value)} onKeyDown=${onKey}></textarea>
      <div class="toolbar">
        <button type="submit" class="button primary" disabled=${busy || !query.trim()}>${busy ? "Running …" : "Run"} <kbd>Ctrl ⏎</kbd></button>
        <${Choice} label="Examples" options=${EXAMPLES} onPick=${setQuery} />
        <${Choice} label="History" options=${history().map((each) => [each.replace(/\s+/g, " ").slice(0, 80), each])} onPick=${setQuery} />
        <span class="quiet">Read only. Limits of time and memory apply.</span>
      </div>
    </form>
    <${ErrorNotice} error=${error} />
    ${
      answer
        ? html`<section class="block" aria-label="Result">
          <div class="toolbar"><h2>${plural(answer.row_count, "row")}</h2><span class="quiet">${answer.elapsed_s.toFixed(2)} s${answer.truncated ? ", cut at the limit of rows" : ""}${answer.rows.length > SHOWN ? `, the first ${count(SHOWN)} are shown` : ""}</span>
            <div class="commands"><button type="button" class="button" onClick=${() => download("csv")}><${Icon} name="download" />CSV</button><button type="button" class="button" onClick=${() => download("parquet")}><${Icon} name="download" />Parquet</button></div>
          </div>
          <${Result} answer=${answer} />
        </section>`
        : error
          ? null
          : html`<section class="block"><${Empty} title="Ask what no page shows">Tables: <code>tool_metrics</code>, <code>circuit_transitions</code> and their rollups.<//></section>`
    }
  </div>`;
}

/** @param {{ label: string, options: string[][], onPick: (value: string) => void }} props */
function Choice({ label, options, onPick }) {
  if (!options.length) return null;
  return html`<select class="button" aria-label=${label} value="" onChange=${(/** @type {any} */ event) => {
    if (event.target.value) onPick(event.target.value);
    event.target.value = "";
  }}>
    <option value="">${label}</option>${options.map(([name, value]) => html`<option key=${value} value=${value}>${name}</option>`)}
  </select>`;
}

/** @param {{ answer: SqlAnswer }} props */
function Result({ answer }) {
  const numeric = answer.columns.map((column) => /^(Nullable\()?(U?Int|Float|Decimal)/.test(column.type));
  return html`<div class="scroll tall" tabindex="0" role="region" aria-label="Rows"><table class="rows result">
    <thead><tr>${answer.columns.map((column, index) => html`<th scope="col" key=${index} class=${numeric[index] ? "num" : ""} title=${column.type}>${column.name}</th>`)}</tr></thead>
    <tbody>${answer.rows.slice(0, SHOWN).map((row) => html`<tr>${row.map((value, index) => html`<td class=${`mono ${numeric[index] ? "num" : "cut"}`} title=${numeric[index] ? undefined : shown(value)}>${value === null ? html`<span class="quiet">null</span>` : shown(value)}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

/** @param {unknown} value */
const shown = (value) => (typeof value === "object" ? JSON.stringify(value) : String(value));
