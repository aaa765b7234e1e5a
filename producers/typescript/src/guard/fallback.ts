/** What stands in for a tool whose circuit refuses: the chains of fallbacks by name. */
import { SwitchgearError } from "../errors.js";

/** A tool's fallback, or several in order, by the tool's name. */
export type Chains = Readonly<Record<string, string | readonly string[]>>;

/** The chains of a client by tool. */
export class FallbackMap {
  readonly #named = new Map<string, readonly string[]>();

  /**
   * Set the chain of each tool in `chains`. If one is impossible, none is set.
   *
   * @throws SwitchgearError A tool is its own fallback, or a chain is not a list of names.
   */
  update(chains: Chains): void {
    const checked = Object.entries(chains).map(([tool, named]) => [tool, checkedChain(tool, named)] as const);
    for (const [tool, chain] of checked) {
      this.#named.set(tool, chain);
    }
  }

  /**
   * Return the fallbacks of `tool` in the order they are tried: those it names, then those that these name, and so on. Each tool comes
   * once, so circles are harmless. The guard's `own` chain goes before the map.
   */
  chain(tool: string, own: readonly string[] = []): readonly string[] {
    const found = [tool];
    for (const name of found) {
      const named = name === tool && own.length > 0 ? own : (this.#named.get(name) ?? []);
      for (const other of named) {
        if (!found.includes(other)) {
          found.push(other);
        }
      }
    }
    return found.slice(1);
  }
}

/** Return a chain as a list. */
export function checkedChain(tool: string, named: string | readonly string[]): readonly string[] {
  const chain = typeof named === "string" ? [named] : named;
  if (!Array.isArray(chain) || !chain.every((each) => typeof each === "string" && each !== "")) {
    throw new SwitchgearError(
      `The fallbacks of ${tool} are ${String(named)}.`,
      "Use a tool's name or a list of names.",
    );
  }
  if (chain.includes(tool)) {
    throw new SwitchgearError(`${tool} can't be its own fallback.`, "Leave it out of its chain.");
  }
  return chain;
}

/**
 * Return the targets that may be called, in their order.
 *
 * Open ones are left out while they are at most `maxOpenPercent` of all, but always at least one. If no target is left, all are kept: a
 * call to a broken tool is no worse than no call (Envoy's panic threshold).
 */
export function candidates(
  targets: readonly string[],
  isOpen: (target: string) => boolean,
  maxOpenPercent = 100,
): readonly string[] {
  const allowed = Math.max(1, Math.trunc((targets.length * maxOpenPercent) / 100));
  const kept: string[] = [];
  for (const [lookedAt, target] of targets.entries()) {
    if (lookedAt - kept.length >= allowed || !isOpen(target)) {
      kept.push(target);
    }
  }
  return kept.length > 0 ? kept : [...targets];
}
