/** The order, the filter and the groups of the table of tools. No browser is needed here. */
import { COLUMNS } from "./parts/tool-columns.js";
import { byUrgency } from "./store.js";

/** @import { Family, Tool } from "../../types.js" */

/** @typedef {{ kind: "tool", tool: Tool, inside: boolean } | { kind: "family", name: string, family: Family | null, tools: Tool[] }} Row */

/**
 * Return a test for names: globs if there is a * or ?, otherwise a part of the name, whatever its case.
 * @param {string} text
 */
export function matcher(text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return () => true;
  if (!/[*?]/.test(wanted)) return (/** @type {string} */ name) => name.toLowerCase().includes(wanted);
  const source = wanted
    .replace(/[.+^${}()|[\]\\]/g, "\\$&")
    .replaceAll("*", ".*")
    .replaceAll("?", ".");
  const pattern = new RegExp(`^${source}$`);
  return (/** @type {string} */ name) => pattern.test(name.toLowerCase());
}

/**
 * Return the rows of the table.
 * @param {Iterable<Tool>} tools
 * @param {Map<string, Family>} families
 * @param {{ filter?: string, state?: string, sort?: string, grouped?: boolean }} how `sort` begins with - to turn it around
 * @returns {Row[]}
 */
export function listing(tools, families, how) {
  const matches = matcher(how.filter ?? "");
  const kept = [...tools]
    .filter((tool) => matches(tool.tool) && (!how.state || tool.state === how.state))
    .sort(order(how.sort ?? ""));
  if (!how.grouped) return kept.map((tool) => ({ kind: "tool", tool, inside: false }));
  /** @type {Map<string, Tool[]>} */
  const groups = new Map();
  /** @type {(Row | string)[]} */
  const places = [];
  for (const tool of kept) {
    const group = tool.family ? groups.get(tool.family) : undefined;
    if (group) group.push(tool);
    else if (tool.family) {
      groups.set(tool.family, [tool]);
      places.push(tool.family);
    } else places.push({ kind: "tool", tool, inside: false });
  }
  return places.flatMap((place) => {
    if (typeof place !== "string") return [place];
    const inside = groups.get(place) ?? [];
    return [
      /** @type {Row} */ ({ kind: "family", name: place, family: families.get(place) ?? null, tools: inside }),
      ...inside.map((tool) => /** @type {Row} */ ({ kind: "tool", tool, inside: true })),
    ];
  });
}

/** @param {string} sort */
function order(sort) {
  const back = sort.startsWith("-");
  const value = COLUMNS.find((column) => column.key === sort.replace("-", ""))?.value;
  if (!value) return byUrgency;
  return (/** @type {Tool} */ one, /** @type {Tool} */ other) => {
    const [a, b] = [value(one), value(other)];
    const first = typeof a === "number" && typeof b === "number" ? a > b : a < b;
    const compared = a !== b ? (first ? -1 : 1) : one.tool < other.tool ? -1 : 1;
    return back ? -compared : compared;
  };
}
