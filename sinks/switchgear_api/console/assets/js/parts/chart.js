import { clock } from "../format.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { THEMED, themeColour } from "../themes.js";

/** @import { Series } from "../../../types.js" */

/**
 * @typedef {object} Line
 * @property {string} label
 * @property {(number | null)[]} values
 * @property {string} colour name of a token
 * @property {"line" | "bars" | "area"} [kind]
 * @property {number[]} [dash]
 */

/** Pixels left of every plot, so that bands above it can have the same time axis. */
export const AXIS_PX = 52;
export const RIGHT_PX = 12;

/**
 * @typedef {object} ChartProps
 * @property {string} label
 * @property {string[]} at
 * @property {Line[]} lines
 * @property {(value: number | null) => string} format
 * @property {number} [height]
 * @property {number} from milliseconds
 * @property {number} until milliseconds
 * @property {number} [moment] a moment to mark, in milliseconds
 * @property {(ms: number) => void} [onPick]
 */

/**
 * A chart over time, with its values as a table for who can't see it.
 * @param {ChartProps} props
 */
export function Chart(props) {
  const { label, at, lines, format, height = 148, from, until, moment } = props;
  const place = useRef(/** @type {HTMLDivElement | null} */ (null));
  const plot = useRef(/** @type {any} */ (null));
  const current = useRef(props);
  current.current = props;
  const [themed, setThemed] = useState(0);

  useEffect(() => {
    const onTheme = () => setThemed((round) => round + 1);
    const system = matchMedia("(prefers-color-scheme: dark)");
    addEventListener(THEMED, onTheme);
    system.addEventListener("change", onTheme);
    return () => {
      removeEventListener(THEMED, onTheme);
      system.removeEventListener("change", onTheme);
    };
  }, []);

  useEffect(() => {
    const node = place.current;
    if (!node) return undefined;
    // Most pages have no chart: the library runs with the first one.
    let removed = false;
    let remove = () => {};
    void import("../../vendor/uplot.js").then(({ default: uPlot }) => {
      if (removed) return;
      const data = /** @type {any} */ (dataOf(current.current));
      const made = new uPlot(options(uPlot, current, height, node.clientWidth), data, node);
      plot.current = made;
      const observer = new ResizeObserver(() => made.setSize({ width: node.clientWidth, height }));
      observer.observe(node);
      remove = () => {
        observer.disconnect();
        made.destroy();
        plot.current = null;
      };
    });
    return () => {
      removed = true;
      remove();
    };
  }, [themed]);

  // New data goes into the same plot: it keeps the pointer, and nothing flickers.
  useEffect(() => plot.current?.setData(dataOf(props)), [at, from, until, moment, ...lines.map((line) => line.values)]);

  return html`<figure class="chart">
    <figcaption>
      <h3>${label}</h3>
      <ul class="legend">${lines.map((line) => html`<li key=${line.label}><${Key} line=${line} />${line.label}</li>`)}</ul>
    </figcaption>
    <div ref=${place} class="plot" aria-hidden="true"></div>
    <details class="as-table"><summary>Show as a table</summary>
      <div class="scroll short" tabindex="0" role="region" aria-label=${`${label} as a table`}><table><caption class="hidden-text">${label}</caption>
        <thead><tr><th scope="col">Time</th>${lines.map((line) => html`<th scope="col" class="num">${line.label}</th>`)}</tr></thead>
        <tbody>${at.map((time, index) => html`<tr><th scope="row">${clock(time, until)}</th>${lines.map((line) => html`<td class="num">${format(line.values[index] ?? null)}</td>`)}</tr>`)}</tbody>
      </table></div>
    </details>
  </figure>`;
}

/**
 * Return the error rate of each step: the share of the calls that say how the tool is. Null without one.
 * @param {Pick<Series, "judged" | "errors">} series
 */
export const errorRates = ({ judged, errors }) =>
  judged.map((calls, index) => (calls ? (errors[index] ?? 0) / calls : null));

/** @param {{ line: Line }} props */
function Key({ line }) {
  const colour = { color: `var(${line.colour})` };
  if (line.kind === "bars")
    return html`<svg viewBox="0 0 14 8" width="14" height="8" style=${colour} aria-hidden="true"><rect x="2" width="10" height="8" rx="1" fill="currentColor" /></svg>`;
  return html`<svg viewBox="0 0 14 8" width="14" height="8" style=${colour} aria-hidden="true"><path d="M0 4h14" stroke="currentColor" stroke-width="2" stroke-dasharray=${(line.dash ?? []).join(" ")} /></svg>`;
}

/** @param {ChartProps} props */
const dataOf = ({ at, lines }) => [at.map((time) => Date.parse(time) / 1000), ...lines.map((line) => line.values)];

/**
 * @param {typeof import("../../vendor/uplot.js").default} uPlot
 * @param {{ current: ChartProps }} current the newest properties, which the plot asks for when it draws
 * @param {number} height
 * @param {number} width
 * @returns {any}
 */
function options(uPlot, current, height, width) {
  const ink = themeColour("--ink-3");
  const grid = themeColour("--line");
  const bars = uPlot.paths.bars?.({ size: [0.8, 60], align: 1 });
  return {
    width,
    height,
    padding: [8, RIGHT_PX, 0, 0],
    legend: { show: false },
    cursor: { sync: { key: "time" }, drag: { x: false, y: false }, points: { size: 6 }, y: false },
    scales: {
      x: { range: () => [current.current.from / 1000, current.current.until / 1000] },
      y: {
        range: (/** @type {any} */ _, /** @type {number} */ low, /** @type {number} */ high) => [
          Math.min(0, low ?? 0),
          (high || 1) * 1.08,
        ],
      },
    },
    axes: [
      {
        stroke: ink,
        grid: { show: false },
        ticks: { stroke: grid, size: 4 },
        font: "11px sans-serif",
        size: 26,
        space: 70,
        values: AXIS_TIMES,
      },
      {
        stroke: ink,
        grid: { stroke: grid, width: 1 },
        ticks: { show: false },
        font: "11px sans-serif",
        size: AXIS_PX,
        space: 34,
        values: (/** @type {any} */ _, /** @type {number[]} */ values) =>
          values.map((value) => current.current.format(value)),
      },
    ],
    series: [{}, ...current.current.lines.map((line) => series(line, bars))],
    hooks: {
      ready: [(/** @type {any} */ plot) => withTip(plot, current)],
      draw: [(/** @type {any} */ plot) => current.current.moment && markMoment(plot, current.current.moment)],
    },
  };
}

/** @param {Line} line @param {any} bars */
function series(line, bars) {
  const colour = themeColour(line.colour);
  const shared = { label: line.label, points: { show: false }, stroke: colour, dash: line.dash };
  if (line.kind === "bars") return { ...shared, fill: colour, width: 0, paths: bars };
  if (line.kind === "area")
    return { ...shared, fill: colour.replace("rgb(", "rgba(").replace(")", ", 0.16)"), width: 1.5 };
  return { ...shared, width: 1.5 };
}

/** @param {any} plot @param {number} moment */
function markMoment(plot, moment) {
  const x = plot.valToPos(moment / 1000, "x", true);
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = themeColour("--accent");
  ctx.lineWidth = 2 * devicePixelRatio;
  ctx.beginPath();
  ctx.moveTo(x, bbox.top);
  ctx.lineTo(x, bbox.top + bbox.height);
  ctx.stroke();
  ctx.restore();
}

/** Show the values under the pointer, and take a click. @param {any} plot @param {{ current: ChartProps }} current */
function withTip(plot, current) {
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  plot.over.append(tip);
  if (current.current.onPick) {
    plot.over.classList.add("pickable");
    plot.over.addEventListener("click", () => {
      const { idx } = plot.cursor;
      if (idx !== null && idx !== undefined) current.current.onPick?.(plot.data[0][idx] * 1000);
    });
  }
  plot.hooks.setCursor = [
    () => {
      const { idx, left } = plot.cursor;
      tip.hidden = idx === null || idx === undefined || left < 0;
      if (tip.hidden) return;
      const { lines, format } = current.current;
      const texts = lines.map((line) => `${line.label} ${format(line.values[idx] ?? null)}`);
      tip.textContent = `${clock(plot.data[0][idx] * 1000, Date.now())}  ${texts.join("  ")}`;
      tip.classList.toggle("left", left > plot.over.clientWidth / 2);
      tip.style.setProperty("--x", `${left}px`);
    },
  ];
}

const AXIS_TIMES = [
  [86_400, "{D} {MMM}", null, null, null, null, null, null, 1],
  [3600, "{HH}:{mm}", "\n{D} {MMM}", null, "\n{D} {MMM}", null, null, null, 0],
  [60, "{HH}:{mm}", null, null, null, null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 1],
];
