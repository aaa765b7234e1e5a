import { html } from "../html.js";
import { mayOperate } from "../session.js";
import { COMMANDS, commandLabel, commandsFor } from "../states.js";
import { askForCommand } from "./action-dialog.js";

/** @import { Circuit } from "../../../types.js" */

const SHOWN = 3;

/**
 * The commands for a circuit: the usual ones as buttons, rare ones behind "More".
 * @param {{ circuit: Circuit }} props
 */
export function CommandButtons({ circuit }) {
  if (!mayOperate()) return html`<span class="quiet small">Your role can look, not act.</span>`;
  const allowed = circuit.action?.verbs ?? [];
  const possible = commandsFor(circuit.state, circuit.override !== null && circuit.override !== undefined);
  const ordered = allowed.length ? possible.filter((command) => allowed.includes(command)) : possible;
  const ask = (/** @type {string} */ command) =>
    askForCommand({
      circuitId: circuit.circuit_id,
      name: circuit.is_family ? `${circuit.family} (server)` : circuit.tool,
      command,
    });
  return html`<div class="commands">
    ${ordered
      .slice(0, SHOWN)
      .map(
        (command) =>
          html`<button type="button" key=${command} class="button" onClick=${() => ask(command)}>${commandLabel(command)}<span class="hidden-text"> ${circuit.tool}</span></button>`,
      )}
    ${
      ordered.length > SHOWN
        ? html`<select class="button more" aria-label=${`More commands for ${circuit.tool}`} value="" onChange=${(
            /** @type {any} */ event,
          ) => {
            const command = event.target.value;
            event.target.value = "";
            if (command) ask(command);
          }}>
          <option value="">More</option>
          ${ordered.slice(SHOWN).map((command) => html`<option key=${command} value=${command} title=${COMMANDS[command]?.effect ?? ""}>${commandLabel(command)}</option>`)}
        </select>`
        : null
    }
  </div>`;
}
