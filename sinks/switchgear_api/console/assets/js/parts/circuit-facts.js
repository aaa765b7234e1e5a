import { html } from "../html.js";
import { count, countdown, duration, percent, plural } from "../format.js";
import { unasked } from "../probes.js";
import { Fact, SavedFact, Wasted } from "./facts.js";
import { Clock, Countdown, useNow } from "./time.js";

/** @import { Circuit, Pace, Tool, Waste } from "../../../types.js" */

/** @typedef {Circuit & { last_call_at?: string | null }} Called */

/** When the next call is a probe. If it may be made now, who has asked for it. @param {{ circuit: Called, note: string }} props */
function NextProbe({ circuit, note }) {
  const now = useNow();
  const left = circuit.next_probe_at ? (Date.parse(circuit.next_probe_at) - now) / 1000 : 0;
  const notes = [note, left > 0 || circuit.lease ? "" : unasked(circuit, now)];
  return html`<${Fact} name="Next probe" note=${notes.filter(Boolean).join(", ")}>${left > 0 ? html`<time datetime=${circuit.next_probe_at}>${countdown(left)}</time>` : "the next call"}<//>`;
}

/** What happens next with a circuit: a probe, its verdict, the end of a command, or nothing by itself. @param {{ circuit: Called }} props */
export function NextFact({ circuit }) {
  if (circuit.state === "half_open" && circuit.lease) {
    return html`<${Fact} name="Probing" tone="warn" note=${html`by ${circuit.lease.holder}`}>
      ${circuit.lease.expires_at ? html`<${Countdown} to=${circuit.lease.expires_at} due="no answer" />` : "now"}
    <//>`;
  }
  if (circuit.state === "half_open")
    return html`<${NextProbe} circuit=${circuit} note=${circuit.permits_left ? `${plural(circuit.permits_left, "probe")} left` : ""} />`;
  if (circuit.expires_at)
    return html`<${Fact} name="Command ends" note=${html`<${Clock} at=${circuit.expires_at} />`}><${Countdown} to=${circuit.expires_at} due="now" /><//>`;
  if (circuit.state === "forced_open") return html`<${Fact} name="Ends" note="until an operator acts">never<//>`;
  if (circuit.next_probe_at)
    return html`<${NextProbe} circuit=${circuit} note=${circuit.lease ? `by ${circuit.lease.holder}` : ""} />`;
  if (circuit.ramp !== null && circuit.ramp !== undefined && circuit.ramp < 1)
    return html`<${Fact} name="Recovering">${percent(circuit.ramp)} of calls go<//>`;
  return null;
}

/** A tool's rate limit, what was asked for, and who waited. @param {{ pace: Pace }} props */
function PaceFacts({ pace }) {
  const kept = pace.kept ? "kept by all processes" : "learned, not kept";
  const waits = pace.waited ? `${plural(pace.waited, "call")} waited ${duration(pace.wait_s)} each` : "";
  const refusals = [
    waits,
    pace.refused ? `${count(pace.refused)} refused` : "",
    pace.limited ? `${count(pace.limited)} by the tool` : "",
  ];
  return html`
    <${Fact} name="Rate limit" note=${[kept, pace.processes ? plural(pace.processes, "process", "processes") : ""].filter(Boolean).join(" · ")}>${count(Math.round(pace.rate * pace.period_s))} calls in ${duration(pace.period_s)}<//>
    <${Fact} name="Asked for" tone=${pace.asked > pace.rate ? "warn" : ""} note=${refusals.filter(Boolean).join(" · ")}>${percent(pace.asked / pace.rate)} of it<//>
    ${pace.paused_until ? html`<${Fact} name="Paused" note="as the tool asked"><${Countdown} to=${pace.paused_until} due="over" /><//>` : null}
  `;
}

/**
 * @param {{ tool: Tool, period?: { waste: Waste, hours: number } }} props what was wasted in a period, if the page has one
 */
export function CircuitFacts({ tool, period }) {
  const blast = tool.blast;
  return html`<dl class="facts">
    <${NextFact} circuit=${tool} />
    ${tool.pace ? html`<${PaceFacts} pace=${tool.pace} />` : null}
    <${Fact} name="Errors, last hour" tone=${tool.stats.errors ? "bad" : ""} note=${`${count(tool.stats.errors)} of ${count(tool.stats.calls)} calls`}>${percent(tool.stats.error_rate)}<//>
    ${tool.wasted.calls ? html`<${Wasted} wasted=${tool.wasted} />` : null}
    ${period?.waste.calls ? html`<${Wasted} wasted=${period.waste} name=${`Wasted, last ${duration(period.hours * 3600)}`} />` : null}
    ${tool.saved.refused ? html`<${SavedFact} saved=${tool.saved} />` : null}
    ${
      blast?.services
        ? html`<${Fact} name="Reaches" note=${[blast.users ? plural(blast.users, "user") : "", blast.sessions ? plural(blast.sessions, "session") : ""].filter(Boolean).join(" · ")} title=${blast.top_services.join(", ")}>
          ${plural(blast.services, "service")}
        <//>`
        : null
    }
    ${tool.reporters ? html`<${Fact} name="Reported by">${plural(tool.reporters, "process", "processes")}<//>` : null}
    ${tool.scoped_open ? html`<${Fact} name="Open for some" title="Circuits of single users and sessions that refuse calls">${plural(tool.scoped_open, "user or session", "users or sessions")}<//>` : null}
    ${tool.local_opens.length ? html`<${Fact} name="Opened locally" title="Processes that opened a circuit of their own">${plural(tool.local_opens.length, "process", "processes")}<//>` : null}
  </dl>`;
}
