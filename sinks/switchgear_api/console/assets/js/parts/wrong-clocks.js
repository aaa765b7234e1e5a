import { useResource } from "../api.js";
import { count } from "../format.js";
import { html } from "../html.js";

/** @import { WrongClock } from "../../../types.js" */

const RELOAD_MS = 60_000;
const MOST = 5;

/** Which processes have a wrong clock or send local times, and what to do. Nothing if there is none, or if they may not be seen. */
export function WrongClocks() {
  const { data } = useResource("/v1/emitters", {}, RELOAD_MS);
  const emitters = /** @type {{ emitters: WrongClock[] } | null} */ (data)?.emitters ?? [];
  if (!emitters.length) return null;
  return html`<section class="notice note" aria-label="Wrong clocks"><div>
    ${emitters.slice(0, MOST).map((each) => html`<p><b>${each.emitter_id || each.service || "A process without emitter_id"}</b>: ${each.text}. ${each.todo}</p>`)}
    ${emitters.length > MOST ? html`<p>${`And ${count(emitters.length - MOST)} more: GET /v1/emitters lists them.`}</p>` : null}
  </div></section>`;
}
