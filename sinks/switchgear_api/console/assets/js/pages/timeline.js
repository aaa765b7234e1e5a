import { useResource } from "../api.js";
import { toolAddress } from "../address.js";
import { clock, count, percent, plural } from "../format.js";
import { html, useMemo } from "../html.js";
import { useLive } from "../live.js";
import { Band } from "../parts/band.js";
import { Chart, errorRates } from "../parts/chart.js";
import { Empty, Loaded } from "../parts/notices.js";
import { RangePicker } from "../parts/range.js";
import { StateBadge, ToolName } from "../parts/state.js";
import { Clock } from "../parts/time.js";
import { spansOf } from "../shapes.js";
import { setParams } from "../state.js";

/** @import { TimelineAnswer, Transition } from "../../../types.js" */

const LANES = 40;
const ROWS = 500;
const NEAR_MS = 5 * 60_000;

/** @param {{ route: { params: Record<string, string> } }} props */
export function TimelinePage({ route }) {
  const hours = Number(route.params.hours) || 24;
  const resource = useResource("/v1/console/timeline", { hours }, 15_000);
  return html`<div class="page timeline"><${Loaded} resource=${resource} rows=${8}>
    ${(/** @type {TimelineAnswer} */ answer) => html`<${Lanes} answer=${answer} hours=${hours} at=${route.params.at} />`}
  <//></div>`;
}

/** @param {{ answer: TimelineAnswer, hours: number, at: string | undefined }} props */
function Lanes({ answer, hours, at }) {
  const { store } = useLive();
  const { series, transitions, marks } = answer;
  const last = series.at.at(-1);
  const until = last ? Date.parse(last) + series.step_s * 1000 : store.serverNow(Date.now());
  const from = until - hours * 3_600_000;
  const moment = at ? Date.parse(at) : undefined;
  const rates = errorRates(series);
  const lanes = byCircuit(transitions);
  // What came before the oldest change that the answer has is unknown.
  const known = answer.truncated ? Math.max(from, Date.parse(transitions[0]?.at ?? "")) : from;
  const pick = (/** @type {number} */ ms) => setParams({ at: new Date(ms).toISOString() });
  const near =
    moment === undefined
      ? transitions
      : transitions.filter((each) => Math.abs(Date.parse(each.at) - moment) <= NEAR_MS);
  // The same elements while the answer is the same: the fleet's news render the page again.
  const listed = useMemo(
    () =>
      near.length
        ? html`<${Changes} transitions=${near.slice(-ROWS)} hours=${hours} />`
        : html`<${Empty} title="No circuit changed its state in this time" />`,
    [answer, at, hours],
  );
  return html`
    <section class="block charts" aria-label="Fleet">
      <div class="toolbar"><h2>${answer.truncated ? "The newest " : ""}${plural(transitions.length, "change")} of ${plural(lanes.length, "circuit")}</h2>${moment === undefined ? null : html`<button type="button" class="button" onClick=${() => setParams({ at: "" })}>Leave ${clock(moment, until)}</button>`}<${RangePicker} hours=${hours} /></div>
      <${Chart} label="Error rate of the fleet" at=${series.at} from=${from} until=${until} moment=${moment} format=${percent} onPick=${pick} lines=${[{ label: "error rate", values: rates, colour: "--chart-errors", kind: "area" }]} />
      ${marks.length ? html`<div class="band-row"><div class="marks">${marks.map((mark) => html`<button type="button" key=${mark.at + mark.text} class=${`mark ${mark.kind}`} style=${{ left: `${((Date.parse(mark.at) - from) / (until - from)) * 100}%` }} title=${`${clock(mark.at, until)} ${mark.text}`} aria-label=${`${clock(mark.at, until)} ${mark.text}`} onClick=${() => pick(Date.parse(mark.at))}></button>`)}</div></div>` : null}
      <div class="lanes">
        ${lanes.slice(0, LANES).map(
          ([circuit, changes]) => html`<div class="lane" key=${circuit}>
            <${CircuitLink} change=${/** @type {Transition} */ (changes[0])} hours=${hours} at=${at ?? ""} />
            <${Band} spans=${spansOf(changes, known, until)} from=${from} until=${until} label=${circuit} onPick=${pick} />
          </div>`,
        )}
        ${lanes.length > LANES ? html`<p class="quiet">And ${plural(lanes.length - LANES, "other circuit")}: the list below has all.</p>` : null}
      </div>
    </section>
    <section class="block" aria-label="Changes">
      <div class="toolbar"><h2>${moment === undefined ? "Changes" : `Changes around ${clock(moment, until)}`}</h2>${near.length > ROWS ? html`<span class="quiet">The newest ${count(ROWS)}. Choose a moment above for the others.</span>` : null}</div>
      ${listed}
    </section>
  `;
}

/** The name of a circuit, with a link to its tool. A server has no page of its own. @param {{ change: Transition, hours: number, at: string }} props */
function CircuitLink({ change, hours, at }) {
  if (change.scope === "family")
    return html`<span><${ToolName} name=${change.tool} /> <small class="quiet">server</small></span>`;
  return html`<a href=${toolAddress(change.tool, { hours, at })}><${ToolName} name=${change.circuit_id} /></a>`;
}

/** @param {{ transitions: Transition[], hours: number }} props */
function Changes({ transitions, hours }) {
  const newest = [...transitions].sort((one, other) => (one.at < other.at ? 1 : -1));
  return html`<div class="scroll" tabindex="0"><table class="rows transitions">
    <thead><tr><th scope="col">Time</th><th scope="col">Circuit</th><th scope="col">State</th><th scope="col" class="grow">Why</th></tr></thead>
    <tbody>
      ${newest.map(
        (each) => html`<tr key=${each.at + each.circuit_id}>
          <th scope="row"><button type="button" class="opener" data-item onClick=${() => setParams({ at: each.at })}><${Clock} at=${each.at} /></button></th>
          <td><${CircuitLink} change=${each} hours=${hours} at=${each.at} /></td>
          <td><${StateBadge} state=${each.to} quiet /></td>
          <td class="cut grow" title=${each.why ?? ""}>${each.why ?? "–"}${each.actor ? html` <span class="quiet">by ${each.actor}</span>` : null}</td>
        </tr>`,
      )}
    </tbody>
  </table></div>`;
}

/** Circuits in the order of their newest change. @param {Transition[]} transitions @returns {[string, Transition[]][]} */
function byCircuit(transitions) {
  /** @type {Map<string, Transition[]>} */
  const lanes = new Map();
  for (const each of [...transitions].sort((one, other) => (one.at < other.at ? -1 : 1))) {
    const lane = lanes.get(each.circuit_id);
    if (lane) lane.push(each);
    else lanes.set(each.circuit_id, [each]);
  }
  return [...lanes].sort((one, other) => ((one[1].at(-1)?.at ?? "") < (other[1].at(-1)?.at ?? "") ? 1 : -1));
}
