import { useResource } from "../api.js";
import { address } from "../address.js";
import { count, millis, percent, plain } from "../format.js";
import { html } from "../html.js";
import { useLive } from "../live.js";
import { isBroken, withForcedState } from "../store.js";
import { searchable } from "../shapes.js";
import { stateLabel } from "../states.js";
import { Band } from "../parts/band.js";
import { Why } from "../parts/broken-card.js";
import { CallsTable } from "../parts/calls-table.js";
import { Chart, errorRates } from "../parts/chart.js";
import { CircuitFacts } from "../parts/circuit-facts.js";
import { CommandButtons } from "../parts/command-buttons.js";
import { Empty, ErrorNotice, Loaded } from "../parts/notices.js";
import { RangePicker } from "../parts/range.js";
import { StateBadge } from "../parts/state.js";
import { Ago, Since } from "../parts/time.js";

/** @import { Family, Tool, ToolAnswer, Waste } from "../../../types.js" */

const RELOAD_MS = 15_000;

/** @param {{ route: { tool: string, params: Record<string, string> } }} props */
export function ToolPage({ route }) {
  const { store } = useLive();
  const hours = Number(route.params.hours) || 6;
  const resource = useResource(`/v1/console/tool/${encodeURIComponent(route.tool)}`, { hours }, RELOAD_MS);
  return html`<div class="page tool-page">
    <${Loaded} resource=${resource} rows=${8}>
      ${(/** @type {ToolAnswer} */ answer) => {
        const held = store.tools.get(route.tool);
        const tool = held
          ? {
              ...answer.tool,
              ...held,
              blast: held.blast ?? answer.tool.blast,
              scoped_open: answer.tool.scoped_open,
            }
          : withForcedState(answer.tool);
        return html`<${ServerNotice} family=${store.refusingFamily(tool)} /><${ToolHead} tool=${tool} waste=${answer.waste} hours=${hours} /><${History} answer=${answer} hours=${hours} at=${route.params.at} /><${Details} answer=${answer} name=${route.tool} hours=${hours} />`;
      }}
    <//>
  </div>`;
}

/** Says that the tool's server refuses its calls, whatever the tool's own circuit is. @param {{ family: Family | null }} props */
function ServerNotice({ family }) {
  if (!family) return null;
  return html`<div class="notice bad" role="status"><div><b>${`The server ${family.family ?? family.tool} is ${stateLabel(family.state).toLowerCase()}, so calls of this tool are refused too.`}</b>${family.why ? html`<p>${family.why}</p>` : null}</div><a class="button" href="/">Show it</a></div>`;
}

/** @param {{ tool: Tool, waste: Waste, hours: number }} props */
function ToolHead({ tool, waste, hours }) {
  return html`<section class=${`card tool-head ${tool.state}`} aria-label="State">
    <header>
      <${StateBadge} state=${tool.state} />
      <${Since} since=${isBroken(tool) ? (tool.opened_at ?? tool.since) : tool.since} />
      <div class="tail"><${CommandButtons} circuit=${tool} /></div>
    </header>
    <div class="card-main"><${Why} circuit=${tool} /><${CircuitFacts} tool=${tool} period=${{ waste, hours }} /></div>
  </section>`;
}

/** @param {{ answer: ToolAnswer, hours: number, at: string | undefined }} props */
function History({ answer, hours, at }) {
  const { series } = answer;
  const last = series.at.at(-1);
  const until = last ? Date.parse(last) + series.step_s * 1000 : Date.now();
  const from = until - hours * 3_600_000;
  const moment = at ? Date.parse(at) : undefined;
  const rates = errorRates(series);
  const shared = { at: series.at, from, until, moment };
  return html`<section class="block charts" aria-label="History">
    <div class="toolbar"><h2>History</h2><${RangePicker} hours=${hours} /></div>
    <div class="band-row"><${Band} spans=${answer.states} from=${from} until=${until} label="State" /></div>
    <${Chart} ...${shared} label="Calls" format=${count} lines=${[
      { label: "calls", values: series.calls, colour: "--chart-calls", kind: "bars" },
      { label: "errors", values: series.errors, colour: "--chart-errors", kind: "bars" },
    ]} />
    <${Chart} ...${shared} label="Error rate" height=${110} format=${percent} lines=${[{ label: "error rate", values: rates, colour: "--chart-errors", kind: "area" }]} />
    ${
      series.p50_ms
        ? html`<${Chart} ...${shared} label="Latency" format=${millis} lines=${[
            { label: "p50", values: series.p50_ms, colour: "--chart-1" },
            { label: "p95", values: series.p95_ms ?? [], colour: "--chart-2", dash: [6, 3] },
            { label: "p99", values: series.p99_ms ?? [], colour: "--chart-3", dash: [2, 3] },
          ]} />`
        : null
    }
  </section>`;
}

/** @param {{ answer: ToolAnswer, name: string, hours: number }} props */
function Details({ answer, name, hours }) {
  return html`<div class="columns">
    <section class="block" aria-label="Error patterns">
      <div class="toolbar"><h2>Error patterns</h2></div>
      ${
        answer.errors.length
          ? html`<div class="scroll" tabindex="0"><table class="rows"><thead><tr><th scope="col" class="num">Count</th><th scope="col" class="grow">Pattern</th><th scope="col">Class</th><th scope="col">Last</th></tr></thead><tbody>
            ${answer.errors.map((error) => html`<tr key=${error.template}><td class="num">${count(error.count)}</td><th scope="row" class="cut grow mono" title=${error.example ?? error.template}><a href=${address("/calls", { tool: name, text: searchable(error.template, error.example ?? ""), hours })}>${error.template}</a></th><td>${error.class ?? "–"}</td><td><${Ago} at=${error.last_at} /></td></tr>`)}
          </tbody></table></div>`
          : html`<${Empty} title="No errors in this time" />`
      }
    </section>
    <section class="block" aria-label="Who calls it">
      <div class="toolbar"><h2>Who calls it</h2></div>
      ${
        answer.callers.length
          ? html`<div class="scroll" tabindex="0"><table class="rows"><thead><tr><th scope="col">Service</th><th scope="col">Host</th><th scope="col" class="num">Calls</th><th scope="col" class="num">Errors</th></tr></thead><tbody>
            ${answer.callers.map((caller) => html`<tr key=${`${caller.service} ${caller.host}`}><th scope="row">${caller.service ?? "–"}</th><td class="quiet">${caller.host ?? "–"}</td><td class="num">${count(caller.calls)}</td><td class=${`num ${caller.errors ? "" : "zero"}`}>${count(caller.errors)}</td></tr>`)}
          </tbody></table></div>`
          : html`<${Empty} title="No callers in this time" />`
      }
    </section>
    <section class="block" aria-label="Recent calls">
      <div class="toolbar"><h2>Recent calls</h2><a class="link" href=${address("/calls", { tool: name, hours })}>All calls</a></div>
      ${answer.recent.length ? html`<${CallsTable} calls=${answer.recent} withTool=${false} label="Recent calls" />` : html`<${Empty} title="No calls in this time" />`}
    </section>
    <section class="block" aria-label="Slow calls">
      <div class="toolbar"><h2>Slow calls</h2></div>
      ${answer.slow.length ? html`<${CallsTable} calls=${answer.slow} withTool=${false} label="Slow calls" />` : html`<${Empty} title="No slow calls in this time" />`}
    </section>
    <section class="block span" aria-label="Policy">
      <div class="toolbar"><h2>Policy</h2><a class="link" href=${address("/lab", { pattern: name })}>Try another in the policy lab</a></div>
      <${ErrorNotice} error=${answer.policy_error ? new Error(answer.policy_error) : null} />
      <dl class="policy-values">
        ${answer.policy.map((value) => html`<div key=${value.setting} class=${value.source === "default" ? "default" : ""}><dt>${value.setting.replaceAll("_", " ")}</dt><dd><b>${plain(value.value)}</b><small>${value.source}${value.pattern ? html` <code>${value.pattern}</code>` : null}</small></dd></div>`)}
      </dl>
    </section>
  </div>`;
}
