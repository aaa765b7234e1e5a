/**
 * The id of a circuit, and what it says.
 *
 * A tool's own circuit has the tool's name as its id. The others have `name|user=…`, `name|session=…` or `name|family`. A tool may have
 * any name, also one that looks like such an id. So a name is encoded where it has a mark, and no two circuits have the same id. All
 * other names stay as they are.
 */

/** What a circuit is kept for. */
export type CircuitScope = "tool" | "user" | "session" | "target" | "family";

const FAMILY = "|family";
const OWNER = /\|(user|session)=/;
const IN_NAME = /\|(?=(?:user|session)=|family$)|%(?=25|7C)/g;
const ENCODED = /%(25|7C)/g;

/** What a circuit's id says. */
export interface CircuitName {
  /** Name of the tool, or of the family. */
  readonly name: string;
  readonly scope: CircuitScope;
  /** The user or the session. Empty for the circuits of tools and families. */
  readonly whose: string;
}

/** Return the id of a circuit. `readCircuitId` is the other way. For the scope `family`, `name` is the family's. */
export function circuitId(name: string, scope: CircuitScope = "tool", whose = ""): string {
  const encoded = name.includes("|") || name.includes("%") ? name.replace(IN_NAME, codeOf) : name;
  if (scope === "tool") {
    return encoded;
  }
  return scope === "family" ? `${encoded}${FAMILY}` : `${encoded}|${scope}=${whose}`;
}

/** Return what an id says. Every text says something. */
export function readCircuitId(id: string): CircuitName {
  const found = OWNER.exec(id); // the first one, because an encoded name has none
  if (found !== null) {
    const whose = id.slice(found.index + found[0].length);
    return { name: plain(id.slice(0, found.index)), scope: found[1] as CircuitScope, whose };
  }
  return id.endsWith(FAMILY)
    ? { name: plain(id.slice(0, -FAMILY.length)), scope: "family", whose: "" }
    : { name: plain(id), scope: "tool", whose: "" };
}

function codeOf(mark: string): string {
  return `%${mark.charCodeAt(0).toString(16).toUpperCase()}`;
}

function plain(text: string): string {
  return text.replace(ENCODED, (_, code: string) => String.fromCharCode(parseInt(code, 16)));
}
