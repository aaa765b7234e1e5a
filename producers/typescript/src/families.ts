/** Families: the tools of one server, such as `mcp:github:search` and `mcp:github:merge` of `mcp:github`. */
import { circuitId } from "./circuit-ids.js";
import { SwitchgearError } from "./errors.js";

export const DEFAULT_FAMILY_PATTERN = "mcp:*:*";
const MOST_REMEMBERED = 10_000;

/** A family with the id of its circuit. */
export interface Family {
  readonly name: string;
  readonly circuitId: string;
}

export type FamilyOf = (tool: string) => Family | null;

/**
 * Return the function from a tool's name to its family.
 *
 * @param pattern Patterns, comma-separated; the first that matches counts. Each has literal parts and `*`, separated by colons. A `*`
 *   takes one part of the name; the last one takes all the rest. An empty pattern is off.
 * @throws SwitchgearError The pattern is wrong.
 */
export function familyFinder(pattern: string): FamilyOf {
  const patterns = pattern.trim() === "" ? [] : pattern.split(",").map((each) => each.trim().split(":"));
  for (const parts of patterns) {
    if (
      parts.length < 2 ||
      parts.at(-1) !== "*" ||
      parts.some((part) => part === "" || (part.includes("*") && part !== "*"))
    ) {
      throw new SwitchgearError(
        `familyPattern has ${parts.join(":")}.`,
        `Write parts with colons between them and * at the end, such as "${DEFAULT_FAMILY_PATTERN}".`,
      );
    }
  }
  const known = new Map<string, Family | null>();
  return (tool) => {
    let found = known.get(tool);
    if (found === undefined) {
      found = find(tool, patterns);
      if (known.size >= MOST_REMEMBERED) {
        known.clear();
      }
      known.set(tool, found);
    }
    return found;
  };
}

function find(tool: string, patterns: readonly (readonly string[])[]): Family | null {
  for (const parts of patterns) {
    const all = tool.split(":");
    const named = [...all.slice(0, parts.length - 1), all.slice(parts.length - 1).join(":")];
    const matches =
      all.length >= parts.length && named.every((part, at) => part !== "" && (parts[at] === "*" || parts[at] === part));
    if (matches) {
      const name = named.slice(0, -1).join(":");
      return { name, circuitId: circuitId(name, "family") };
    }
  }
  return null;
}
