/**
 * The id of a circuit, and what it says.
 *
 * A tool's own circuit has the tool's name as its id. The others have `name|user=…`, `name|session=…`, `name|tenant=…`, `name|family` or
 * `name@target`. A tool may have any name, also one that looks like such an id. So a name is encoded where it has a mark, and no two circuits have the same
 * id. All other names stay as they are.
 */

/** What a circuit is kept for. */
export type CircuitScope = "tool" | "user" | "session" | "tenant" | "target" | "family";

const FAMILY = "|family";
const OWNER = /\|(user|session|tenant)=/;
const TARGET = /@([^:@]*)$/;
const IN_NAME = /\|(?=(?:user|session|tenant)=|family$)|%(?=25|7C|40|3A)/g;
/** Only a tool's own id can look like a target's. `mcp:@scope/server:tool` can't, because no colon follows the `@` of a target. */
const IN_TOOL = new RegExp(`${IN_NAME.source}|@(?=[^:]*$)`, "g");
const IN_TARGET = /[|@:]|%(?=25|7C|40|3A)/g;
const ENCODED = /%(25|7C|40|3A)/g;

/** What a circuit's id says. */
export interface CircuitName {
  /** Name of the tool, or of the family. */
  readonly name: string;
  readonly scope: CircuitScope;
  /** The user, the session, the tenant or the target. Empty for the circuits of tools and families. */
  readonly whose: string;
}

/** Return the id of a circuit. `readCircuitId` is the other way. For the scope `family`, `name` is the family's. */
export function circuitId(name: string, scope: CircuitScope = "tool", whose = ""): string {
  const encoded = name.replace(scope === "tool" ? IN_TOOL : IN_NAME, codeOf);
  if (scope === "tool") {
    return encoded;
  }
  if (scope === "family") {
    return `${encoded}${FAMILY}`;
  }
  return scope === "target" ? `${encoded}@${whose.replace(IN_TARGET, codeOf)}` : `${encoded}|${scope}=${whose}`;
}

/** Return what an id says. Every text says something. */
export function readCircuitId(id: string): CircuitName {
  const owner = OWNER.exec(id); // the first one, because an encoded name has none
  if (owner !== null) {
    const whose = id.slice(owner.index + owner[0].length);
    return { name: plain(id.slice(0, owner.index)), scope: owner[1] as CircuitScope, whose };
  }
  if (id.endsWith(FAMILY)) {
    return { name: plain(id.slice(0, -FAMILY.length)), scope: "family", whose: "" };
  }
  const target = TARGET.exec(id);
  return target === null
    ? { name: plain(id), scope: "tool", whose: "" }
    : { name: plain(id.slice(0, target.index)), scope: "target", whose: plain(target[1]!) };
}

function codeOf(mark: string): string {
  return `%${mark.charCodeAt(0).toString(16).toUpperCase()}`;
}

function plain(text: string): string {
  return text.replace(ENCODED, (_, code: string) => String.fromCharCode(parseInt(code, 16)));
}
