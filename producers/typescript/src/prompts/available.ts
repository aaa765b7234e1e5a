import { SwitchgearError } from "../errors.js";
import { circuitIn, listedName, renamer, type NameMap } from "./tool-name.js";

/** A list of tools, or an object of tools by name as in the AI SDK. */
export type ToolList = readonly unknown[] | Readonly<Record<string, unknown>>;

/**
 * Return the items of `tools` that are offered, unchanged and in order: a list for a list, an object for an object. A tool that was wrapped,
 * or whose function is guarded, knows its circuit.
 *
 * @param offered Returns which of the tools with these circuits are offered.
 * @throws SwitchgearError An item has no name. The message has its position.
 */
export function availableIn<T extends ToolList>(
  tools: T,
  offered: (circuits: readonly string[]) => readonly boolean[],
  circuitOf?: NameMap,
): T {
  const circuitName = renamer(circuitOf);
  if (!Array.isArray(tools)) {
    const entries = Object.entries(tools);
    const kept = offered(entries.map(([name, tool]) => circuitIn(tool) ?? circuitName(name)));
    return Object.fromEntries(entries.filter((_, position) => kept[position])) as T;
  }
  const circuits = tools.map((tool, position) => {
    const guarded = circuitIn(tool);
    const name = guarded ?? listedName(tool);
    if (name === null) {
      throw new SwitchgearError(
        `tools[${position}] has no name.`,
        "Give a name, or an object with a name or a function in it.",
      );
    }
    return guarded ?? circuitName(name);
  });
  const kept = offered(circuits);
  return tools.filter((_, position) => kept[position]) as unknown as T;
}
