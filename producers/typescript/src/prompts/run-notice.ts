/** What the wrappers of agent frameworks tell the model about the tools of a run. */
import { listedName, circuitIn, renamer, type NameMap } from "./tool-name.js";

/** Return the model's name of each tool by its circuit: for `notice`, which then names these alone. */
export function namesByCircuit(
  tools: readonly (readonly [name: string | null, tool: unknown])[],
  circuitOf?: NameMap,
): Record<string, string> {
  const circuitName = renamer(circuitOf);
  const found: Record<string, string> = {};
  for (const [given, tool] of tools) {
    const name = given ?? listedName(tool);
    if (name !== null) {
      found[circuitIn(tool) ?? circuitName(name)] = name;
    }
  }
  return found;
}

/** Return the answer that ends a run in place of the model's. */
export function endOfRun(lastRefusal: string): string {
  return `The run ends: too many tool calls were refused. ${lastRefusal}`;
}
