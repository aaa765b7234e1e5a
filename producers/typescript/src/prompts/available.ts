import { SwitchgearError } from "../errors.js";
import { circuitIn, listedName, renamer, type NameMap } from "./tool-name.js";

/** A list of tools, or an object of tools by name as in the AI SDK. */
export type ToolList = readonly unknown[] | Readonly<Record<string, unknown>>;

/**
 * Return the items of `tools` whose circuit doesn't refuse calls, unchanged and in order: a list for a list, an object for an object. A tool
 * that was wrapped, or whose function is guarded, knows its circuit.
 *
 * Tools that the model's provider runs usually have no circuit and stay. If all circuits refuse, the list is empty. Leave the parameter
 * out of the request then: OpenAI's API rejects an empty list.
 *
 * @throws SwitchgearError An item has no name. The message has its position.
 */
export function availableIn<T extends ToolList>(
  tools: T,
  refuses: (circuit: string) => boolean,
  circuitOf?: NameMap,
): T {
  const circuitName = renamer(circuitOf);
  if (!Array.isArray(tools)) {
    const kept = Object.entries(tools).filter(([name, tool]) => !refuses(circuitIn(tool) ?? circuitName(name)));
    return Object.fromEntries(kept) as T;
  }
  return tools.filter((tool, position) => {
    const guarded = circuitIn(tool);
    const name = guarded ?? listedName(tool);
    if (name === null) {
      throw new SwitchgearError(
        `tools[${position}] has no name.`,
        "Give a name, or an object with a name or a function in it.",
      );
    }
    return !refuses(guarded ?? circuitName(name));
  }) as unknown as T;
}
