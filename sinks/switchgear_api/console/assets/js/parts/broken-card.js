import { toolAddress } from "../address.js";
import { html } from "../html.js";
import { plural } from "../format.js";
import { Beat } from "./beat.js";
import { CircuitFacts, NextFact } from "./circuit-facts.js";
import { CommandButtons } from "./command-buttons.js";
import { Icon } from "./icons.js";
import { StateBadge, ToolName } from "./state.js";
import { Clock, Since } from "./time.js";

/** @import { Circuit, Family, Tool } from "../../../types.js" */

const KINDS = /** @type {Record<string, string>} */ ({ down: "Down", rejects_arguments: "Rejects arguments" });

/**
 * Why a circuit is in its state: the sentence, who commanded it, the last error, and what to do. After a failed probe the sentence is
 * about the probe, so the one of the opening stays too.
 * @param {{ circuit: Circuit & { opened_at?: string | null, opened_why?: string | null } }} props
 */
export function Why({ circuit }) {
  const by = circuit.override;
  const said = by !== null && by !== undefined && (circuit.why ?? "").includes(by.reason || by.actor || "");
  const opening = !by && circuit.state !== "closed" && circuit.opened_why !== circuit.why ? circuit.opened_why : null;
  return html`
    ${circuit.why ? html`<p class="why">${circuit.why}</p>` : null}
    ${by && !said ? html`<p class="why quiet">By ${by.actor ?? "an operator"}${by.reason ? html`: “${by.reason}”` : null}</p>` : null}
    ${opening ? html`<p class="why quiet">It opened at <${Clock} at=${circuit.opened_at} />: ${opening}</p>` : null}
    ${circuit.last_error ? html`<p class="last-error"><span>Last error</span><code title=${circuit.last_error}>${circuit.last_error}</code></p>` : null}
    ${circuit.action?.text ? html`<p class="advice"><${Icon} name="right" /><span class="hidden-text">What to do: </span><span>${circuit.action.text}</span></p>` : null}
  `;
}

/** @param {{ tool: Tool, fresh: boolean }} props */
export function BrokenCard({ tool, fresh }) {
  return html`<article class=${`card broken ${tool.state} ${fresh ? "fresh" : ""}`} aria-label=${tool.tool}>
    <header>
      <${StateBadge} state=${tool.state} />
      <h3><a href=${toolAddress(tool.tool)}><${ToolName} name=${tool.tool} /></a></h3>
      ${!tool.override && tool.kind && KINDS[tool.kind] ? html`<span class="tag">${KINDS[tool.kind]}</span>` : null}
      <${Since} since=${tool.opened_at ?? tool.since} />
      <div class="tail"><${Beat} beat=${tool.beat} height=${22} /><${CommandButtons} circuit=${tool} /></div>
    </header>
    <div class="card-main">
      <${Why} circuit=${tool} />
      <${CircuitFacts} tool=${tool} />
    </div>
  </article>`;
}

/**
 * A server whose circuit refuses calls, with the tools behind it.
 * @param {{ family: Family, tools: string[], lastCallAt: string | null }} props
 */
export function FamilyCard({ family, tools, lastCallAt }) {
  const name = family.family ?? family.tool;
  return html`<article class=${`card broken ${family.state}`} aria-label=${`Server ${name}`}>
    <header>
      <${StateBadge} state=${family.state} />
      <h3><${ToolName} name=${name} /></h3>
      <span class="tag">Server</span>
      <${Since} since=${family.since} />
      <div class="tail"><${CommandButtons} circuit=${{ ...family, is_family: true }} /></div>
    </header>
    <div class="card-main">
      <${Why} circuit=${family} />
      <dl class="facts">
        <${NextFact} circuit=${{ ...family, last_call_at: lastCallAt }} />
        <div class="fact wide"><dt>${plural(tools.length, "tool")} behind it</dt>
          <dd class="names">${tools.slice(0, 8).map((tool) => html`<a key=${tool} href=${toolAddress(tool)}><${ToolName} name=${tool} short /></a>`)}${tools.length > 8 ? html`<span>and ${tools.length - 8} more</span>` : null}</dd>
        </div>
      </dl>
    </div>
  </article>`;
}
