/** Names in lists of tools: of OpenAI, Anthropic, MCP, Bedrock, Gemini and agent frameworks. */
import { isRecord } from "../classify/tool-failure.js";
import { SwitchgearError } from "../errors.js";

/** Returns the name of the circuit (`mcp:server:tool`) for a name in the list. A mapping leaves names that it lacks unchanged. */
export type NameMap = Readonly<Record<string, string>> | ((name: string) => string);

/** Keys of OpenAI and Bedrock that hold the tool with its name. */
const INNER = ["function", "custom", "toolSpec"];
/** Keys of Gemini that hold a list of tools. A list with one tool has its name. */
const DECLARATIONS = ["function_declarations", "functionDeclarations"];
const CALLED_BY_US = ["function", "custom"];
const PLACES = [...INNER, ...DECLARATIONS, "name", "type"];

/** Where a guarded function, or a tool around it, has the name of its circuit. */
const CIRCUIT = Symbol.for("switchgear.circuit");

/** Note the circuit of a guarded function or tool, and return it. */
export function withCircuit<T extends object>(guarded: T, circuit: string): T {
  return Object.defineProperty(guarded, CIRCUIT, { value: circuit, configurable: true });
}

/** Return the circuit that a tool or its function is guarded with. Null: it isn't guarded, or hides it. */
export function circuitIn(tool: unknown): string | null {
  const { execute, func } = Object(tool) as { execute?: unknown; func?: unknown };
  const circuits = [tool, execute, func].map((place) => (Object(place) as { [CIRCUIT]?: unknown })[CIRCUIT]);
  return (circuits.find((each) => typeof each === "string") as string | undefined) ?? null;
}

/** Return the function that a map of names stands for. */
export function renamer(map: NameMap | undefined): (name: string) => string {
  if (map === undefined) {
    return (name) => name;
  }
  const rename =
    typeof map === "function" ? map : (name: string): string => (Object.hasOwn(map, name) ? map[name]! : name);
  return (name) => {
    const found = rename(name);
    if (typeof found !== "string" || found === "") {
      throw new SwitchgearError(`The map of names returned ${String(found)} for ${name}.`, "Return a tool's name.");
    }
    return found;
  };
}

/** Return the name of an item of a tool list, or null. */
export function listedName(tool: unknown): string | null {
  if (typeof tool === "string") {
    return tool || null;
  }
  if (typeof tool === "function") {
    return tool.name || null;
  }
  if (!isRecord(tool)) {
    return null;
  }
  const declared = DECLARATIONS.map((key) => tool[key]).map((list) =>
    Array.isArray(list) && list.length === 1 ? (list[0] as unknown) : null,
  );
  const inner = [...INNER.map((key) => tool[key]), ...declared].map((each) => (isRecord(each) ? each["name"] : null));
  const kind = CALLED_BY_US.includes(tool["type"] as string) ? null : tool["type"];
  const names = [tool["name"], ...inner, kind, ...alone(tool)];
  return (names.find((name) => typeof name === "string" && name !== "") as string | undefined) ?? null;
}

/** Return the possible names of an object with one key that isn't a known place of a name. */
function alone(tool: Readonly<Record<string, unknown>>): unknown[] {
  const [entry, ...others] = Object.entries(tool);
  if (entry === undefined || others.length > 0) {
    return [];
  }
  const [key, value] = entry;
  return isRecord(value) && !PLACES.includes(key) ? [value["name"], key] : [];
}
