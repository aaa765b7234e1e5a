import { readCircuitId } from "../circuit-ids.js";
import { denial, readView, type CircuitView } from "./view.js";

/** Who decides. `loading`: the process alone, until the circuits were read once. `deny`: every call is refused. */
export type GuardMode = "loading" | "fleet" | "last_known" | "local_only" | "deny";

/** The last record of each circuit of the fleet, by circuit id. */
export class CircuitTable {
  /** Called with each new record. */
  onView: ((view: CircuitView) => void) | null = null;
  malformed = 0;
  #views = new Map<string, CircuitView>();
  /** By tool, the number of its circuits of users, sessions or targets. */
  readonly #scoped = new Map<string, number>();

  get size(): number {
    return this.#views.size;
  }

  /** Return the circuit with this id, as far as `mode` lets the fleet decide. */
  get(circuitId: string, mode: GuardMode): CircuitView | null {
    if (mode === "deny") {
      return readCircuitId(circuitId).scope === "family" ? null : denial(circuitId); // the tools of a family are denied themselves
    }
    return mode === "local_only" ? null : (this.#views.get(circuitId) ?? null);
  }

  /** Return all circuits of this moment. */
  all(mode: GuardMode): CircuitView[] {
    return mode === "local_only" || mode === "deny" ? [] : [...this.#views.values()];
  }

  /** Return whether the tool has circuits of users, sessions or targets. */
  isScoped(tool: string): boolean {
    return this.#scoped.has(tool);
  }

  /** Take a record. One with a lower version than the known one changes nothing. */
  apply(record: unknown): void {
    const view = readView(record);
    if (view === null) {
      this.malformed += 1;
      return;
    }
    const known = this.#views.get(view.circuitId);
    if (known !== undefined && known.version > view.version) {
      return;
    }
    if (known === undefined) {
      this.#countScoped(view, 1);
    }
    this.#views.set(view.circuitId, view);
    this.onView?.(view);
  }

  /** Forget a circuit that the fleet has removed. */
  remove(circuitId: string): void {
    const known = this.#views.get(circuitId);
    if (known !== undefined) {
      this.#views.delete(circuitId);
      this.#countScoped(known, -1);
    }
  }

  /** Take all circuits, and forget the others. */
  replace(records: Readonly<Record<string, unknown>>): void {
    for (const circuitId of [...this.#views.keys()]) {
      if (!(circuitId in records)) {
        this.remove(circuitId);
      }
    }
    this.add(records);
  }

  /** Take circuits, and keep the others. */
  add(records: Readonly<Record<string, unknown>>): void {
    for (const record of Object.values(records)) {
      this.apply(record);
    }
  }

  #countScoped(view: CircuitView, by: 1 | -1): void {
    if (view.scope !== "tool" && view.scope !== "family") {
      const count = (this.#scoped.get(view.tool) ?? 0) + by;
      if (count === 0) {
        this.#scoped.delete(view.tool);
      } else {
        this.#scoped.set(view.tool, count);
      }
    }
  }
}
