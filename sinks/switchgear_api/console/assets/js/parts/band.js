import { clock, duration } from "../format.js";
import { html } from "../html.js";
import { bandSegments } from "../shapes.js";
import { stateLabel } from "../states.js";

/** @import { Span } from "../../../types.js" */

/**
 * The states of a circuit over time. Each state has a height and a pattern of its own besides its colour.
 * @param {{ spans: Span[], from: number, until: number, label: string, onPick?: (ms: number) => void }} props
 */
export function Band({ spans, from, until, label, onPick }) {
  const segments = bandSegments(spans, from, until);
  const said = segments
    .filter((segment) => segment.state !== "closed")
    .map(
      (segment) =>
        `${stateLabel(segment.state)} from ${clock(segment.begin, until)} for ${duration((segment.end - segment.begin) / 1000)}`,
    );
  return html`<div class="band" role="img" aria-label=${`${label}: ${said.length ? said.slice(-6).join("; ") : "closed"}`}>
    ${segments.map(
      (
        segment,
      ) => html`<span key=${segment.at} class=${`segment ${segment.state} ${onPick ? "pickable" : ""}`} style=${{ left: `${segment.left}%`, width: `${segment.width}%` }}
        title=${`${stateLabel(segment.state)} · ${clock(segment.begin, until)} · ${duration((segment.end - segment.begin) / 1000)}${segment.why ? `\n${segment.why}` : ""}`}
        onClick=${onPick ? () => onPick(segment.begin) : undefined}>${segment.width > 9 ? html`<b>${stateLabel(segment.state)}</b>` : null}</span>`,
    )}
  </div>`;
}
