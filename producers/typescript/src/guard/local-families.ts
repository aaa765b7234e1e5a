import { Breaker } from "../breaker/breaker.js";
import { LOCAL_FAMILY_DEFAULT, policyOf, type Policy } from "../breaker/policy.js";
import { COUNTED_S, outageBegan } from "../breaker/states.js";
import type { Cause, Transition } from "../breaker/values.js";
import { circuitId } from "../circuit-ids.js";
import { type Family, type FamilyOf } from "../families.js";
import { LocalCircuit, type LocalCircuits } from "./local-circuits.js";

/** The most circuits. Invented names can't make more: the calls of one more family pass uncounted by it. */
const MAX_FAMILIES = 1_000;

/**
 * The process's own circuits of families, the servers of its tools, made when a tool of theirs is first called.
 *
 * They open when several tools of a server fail in a row without an answer. When one closes, its tools' circuits may be probed at once.
 */
export class LocalFamilies {
  readonly #circuits = new Map<string, LocalCircuit>();
  readonly #uncounted = new LocalCircuit(new Breaker("", policyOf({ mode: "disabled" }), 0));
  /** By family, when the outage of an open one began. */
  readonly #outages = new Map<string, number>();
  /** The same for the fleet's circuits. */
  readonly #fleetOutages = new Map<string, number>();

  constructor(
    private readonly tools: LocalCircuits,
    private readonly familyOf: FamilyOf,
    private readonly now: () => number,
    private readonly policy: Policy = LOCAL_FAMILY_DEFAULT,
  ) {
    tools.onNewTool = (tool) => {
      const family = familyOf(tool);
      if (family !== null) {
        this.get(family).breaker.noteTools([tool]); // while it answers, another one that fails doesn't open the family
      }
    };
  }

  /** Return the circuit of a family. */
  get(family: Family): LocalCircuit {
    let found = this.#circuits.get(family.name);
    if (found === undefined) {
      if (this.#circuits.size >= MAX_FAMILIES) {
        return this.#uncounted;
      }
      const circuit = new LocalCircuit(
        new Breaker(family.circuitId, this.policy, this.now()),
        family.name,
        this.tools.includeLastError,
      );
      circuit.breaker.onMove = (moved) => this.#moved(circuit, family.name, moved);
      this.#circuits.set(family.name, circuit);
      found = circuit;
    }
    return found;
  }

  all(): LocalCircuit[] {
    return [...this.#circuits.values()];
  }

  /** Follow the fleet's circuit of a family. When it closes after an outage, circuits that opened since then are probed at once. */
  onFleet(family: string, passes: boolean): void {
    if (!passes) {
      if (!this.#fleetOutages.has(family)) {
        this.#fleetOutages.set(family, this.now() - COUNTED_S);
      }
      return;
    }
    const since = this.#fleetOutages.get(family);
    if (since !== undefined) {
      this.#fleetOutages.delete(family);
      const own = this.#circuits.get(family);
      this.#free([...(own === undefined ? [] : [own]), ...this.#ofTools(family)], since, family);
    }
  }

  #moved(circuit: LocalCircuit, family: string, moved: Transition): void {
    this.tools.onMove?.(moved);
    if (moved.state === "open") {
      if (moved.previous === "closed") {
        this.#outages.set(family, outageBegan(this.policy, moved.at));
      }
      return;
    }
    circuit.breaker.noteTools(this.#names(family)); // the change has cleared them
    const since = this.#outages.get(family);
    if (moved.state === "closed" && since !== undefined) {
      this.#outages.delete(family);
      this.#free(this.#ofTools(family), since, family);
    }
  }

  #names(family: string): string[] {
    return this.tools.names().filter((tool) => this.familyOf(tool)?.circuitId === circuitId(family, "family"));
  }

  #ofTools(family: string): LocalCircuit[] {
    return this.#names(family).flatMap((tool) => this.tools.ofTool(tool));
  }

  /** Let circuits that opened after `since` be probed at once. */
  #free(circuits: readonly LocalCircuit[], since: number, family: string): void {
    const cause: Cause = { rule: "family_recovered", reason: family };
    for (const { breaker } of circuits) {
      if (breaker.changedAt >= since) {
        breaker.endWaitEarly(this.now(), cause);
      }
    }
  }
}
