import { html } from "../html.js";
import { STATES, stateLabel } from "../states.js";

/** A shape of its own for each state, so that colour is never needed to read it. */
const SHAPES = /** @type {Record<string, () => unknown>} */ ({
  closed: () => html`<circle cx="7" cy="7" r="4" fill="currentColor" />`,
  open: () => html`<path d="M3 3l8 8M11 3l-8 8" stroke="currentColor" stroke-width="2.4" stroke-linecap="round" />`,
  half_open: () =>
    html`<circle cx="7" cy="7" r="4.6" fill="none" stroke="currentColor" stroke-width="1.8" /><path d="M7 2.4a4.6 4.6 0 0 1 0 9.2z" fill="currentColor" />`,
  forced_open: () =>
    html`<rect x="1.8" y="1.8" width="10.4" height="10.4" rx="2" fill="currentColor" /><path d="M4.6 7h4.8" stroke="var(--surface)" stroke-width="2" stroke-linecap="round" />`,
  metrics_only: () =>
    html`<path d="M1 7s2.2-3.8 6-3.8S13 7 13 7s-2.2 3.8-6 3.8S1 7 1 7z" fill="none" stroke="currentColor" stroke-width="1.6" /><circle cx="7" cy="7" r="1.7" fill="currentColor" />`,
  unknown: () =>
    html`<path d="M4.5 5.2a2.5 2.5 0 1 1 3.6 2.2c-.7.4-1.1.9-1.1 1.6" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" /><circle cx="7" cy="11.6" r="1" fill="currentColor" />`,
  disabled: () =>
    html`<circle cx="7" cy="7" r="4.6" fill="none" stroke="currentColor" stroke-width="1.6" stroke-dasharray="2.4 2.2" />`,
});

/** @param {{ state: string }} props */
export function StateShape({ state }) {
  return html`<svg class=${`shape ${state}`} viewBox="0 0 14 14" width="14" height="14" aria-hidden="true">${(SHAPES[state] ?? SHAPES.disabled)?.()}</svg>`;
}

/** @param {{ state: string, quiet?: boolean }} props */
export function StateBadge({ state, quiet = false }) {
  return html`<span class=${`state ${state} ${quiet ? "quiet" : ""}`} title=${STATES[state]?.meaning ?? ""}>
    <${StateShape} state=${state} />${stateLabel(state)}
  </span>`;
}

/** A tool's name: the server of an MCP tool is dimmed, what follows stands out. */
export function ToolName(/** @type {{ name: string, short?: boolean }} */ { name, short = false }) {
  const cut = name.lastIndexOf(":") + 1;
  const head = name.slice(0, cut);
  return html`<span class="tool-name" title=${name}>${short ? "" : html`<i>${head}</i>`}<b>${name.slice(cut) || name}</b></span>`;
}
