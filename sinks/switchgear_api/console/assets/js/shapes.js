/** The geometry of strips, bands and small lines. */

/** @import { Minutes, Span, State } from "../../types.js" */

/**
 * Return SVG paths for a strip of minutes: what succeeded, and what failed on top of it.
 * Heights follow the square root of the calls, so that quiet minutes stay visible beside busy ones.
 * @param {Minutes} beat
 * @param {number} height
 * @param {number} [step] width of a minute, with its gap
 */
export function beatPaths(beat, height, step = 3) {
  const most = Math.max(1, ...beat.calls);
  let good = "";
  let bad = "";
  beat.calls.forEach((calls, index) => {
    if (!calls) return;
    const errors = beat.errors[index] ?? 0;
    const whole = Math.max(2, Math.round(Math.sqrt(calls / most) * height));
    const failed = errors ? Math.max(2, Math.round((whole * Math.min(errors, calls)) / calls)) : 0;
    const x = index * step;
    if (whole > failed) good += `M${x} ${height - whole + failed}h${step - 1}v${whole - failed}h${1 - step}z`;
    if (failed) bad += `M${x} ${height - whole}h${step - 1}v${failed}h${1 - step}z`;
  });
  return { good, bad, width: beat.calls.length * step };
}

/**
 * Return where the spans of a band begin and how wide they are, in percent. What lies outside is cut.
 * @param {Span[]} spans
 * @param {number} from milliseconds
 * @param {number} until milliseconds
 */
export function bandSegments(spans, from, until) {
  const whole = Math.max(1, until - from);
  return spans
    .map((span) => {
      const begin = Math.max(from, Date.parse(span.at));
      const end = Math.min(until, span.until ? Date.parse(span.until) : until);
      return { ...span, left: ((begin - from) / whole) * 100, width: ((end - begin) / whole) * 100, begin, end };
    })
    .filter((segment) => segment.end > segment.begin);
}

/**
 * Return the spans between changes of state, until a moment.
 * @param {{ at: string, from?: State | null, to?: State, state?: State, why?: string | null }[]} changes oldest first
 * @param {number} from milliseconds
 * @param {number} until milliseconds
 * @returns {Span[]}
 */
export function spansOf(changes, from, until) {
  /** @type {Span[]} */
  const spans = [];
  const first = changes[0];
  const before = first?.from ?? (first && (first.to ?? first.state) !== "closed" ? "closed" : null);
  if (first && before && Date.parse(first.at) > from) {
    spans.push({ at: new Date(from).toISOString(), until: first.at, state: before });
  }
  changes.forEach((change, index) => {
    const state = change.to ?? change.state;
    const next = changes[index + 1];
    if (state)
      spans.push({ at: change.at, until: next ? next.at : new Date(until).toISOString(), state, why: change.why });
  });
  return spans;
}

/**
 * Return the changes of a circuit that is open whenever one of many is.
 * @param {{ at: string, state: State, tool?: string }[]} changes oldest first
 * @returns {{ at: string, state: State }[]}
 */
export function anyOpen(changes) {
  const open = new Set();
  /** @type {{ at: string, state: State }[]} */
  const found = [];
  for (const { at, state, tool = "" } of changes) {
    if (state === "closed" || state === "metrics_only") open.delete(tool);
    else open.add(tool);
    const together = open.size ? "open" : "closed";
    if (found.at(-1)?.state !== together) found.push({ at, state: together });
  }
  return found;
}

/**
 * Return the text of an error pattern that finds its calls: its longest part between placeholders that the example has too. The
 * pattern has one space where the example may have a line break; then it is a word.
 * @param {string} template
 * @param {string} example
 */
export function searchable(template, example) {
  const parts = template.split(/<[^>]*>|\{[^}]*\}|\*/).map((part) => part.trim());
  const longest = (/** @type {string[]} */ texts) =>
    texts.reduce((best, text) => (text.length > best.length ? text : best), "");
  return longest(parts.filter((part) => example.includes(part))) || longest(parts.flatMap((part) => part.split(" ")));
}

/**
 * Return the path of a small line through values.
 * @param {number[]} values
 * @param {number} width
 * @param {number} height
 */
export function linePath(values, width, height) {
  if (values.length < 2) return "";
  const most = Math.max(...values, Number.MIN_VALUE);
  return values
    .map((value, index) => {
      const x = (index / (values.length - 1)) * width;
      const y = height - 1 - (value / most) * (height - 2);
      return `${index ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
    })
    .join("");
}
