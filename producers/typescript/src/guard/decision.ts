import { recoveryInWords } from "../breaker/ramp.js";
import { PASSING } from "../breaker/states.js";
import type { BreakerPermit, BreakerRejection } from "../breaker/values.js";
import { circuitId } from "../circuit-ids.js";
import type { Family, FamilyOf } from "../families.js";
import type { CircuitView } from "../fleet/view.js";
import { DUE, REFUSES, UP, type Condition } from "../tool-list.js";
import { Rejection } from "../rejection.js";
import { aimed, type Caller } from "./caller.js";
import type { Held } from "./credentials.js";
import type { FleetCircuits, GatewayPermit } from "./fleet-circuits.js";
import type { LocalCircuit, LocalCircuits } from "./local-circuits.js";
import type { LocalFamilies } from "./local-families.js";
import { limitsOf } from "./overdue.js";
import { Permit, type FamilyPermit, type Reporter } from "./permit.js";
import type { Turn } from "./turns.js";

/** What the fleet's circuits say about a call. */
type FleetDecision =
  | Rejection
  | {
      readonly view: CircuitView | null;
      readonly familyView: CircuitView | null;
      /** The circuit of which a probe must be asked for. */
      readonly probing: CircuitView | null;
    };

/** A call that asks for its turn. */
interface Asking {
  readonly tool: string;
  readonly caller: Caller;
  readonly family: Family | null;
  readonly permit: (turn: Turn | null) => Permit;
  /** Gives back what the call holds. */
  readonly refused: (refusal: Rejection) => Rejection;
}

/**
 * Decides about calls: first the circuits of the tool's family, then the tool's. Of each the fleet's, then this process's. Last
 * comes the caller's credential, then the call's turn. Without a fleet it is a complete local circuit breaker.
 */
export class Decision {
  readonly #fleet: FleetCircuits | null;

  constructor(
    readonly local: LocalCircuits,
    /** The process's own circuits of families. A session has none. */
    readonly families: LocalFamilies | null,
    readonly familyOf: FamilyOf,
    private readonly reporter: Reporter,
    private readonly ofSession = false,
  ) {
    this.#fleet = reporter.fleet;
  }

  /** Decide. Only a probe of the fleet takes time. The arguments say what the call is about, if the policy has a `target`. */
  acquire(tool: string, ids: Caller, args: readonly unknown[] = []): Permit | Rejection | Promise<Permit | Rejection> {
    const { clock, overdue } = this.reporter;
    overdue.look(clock.now());
    const caller = aimed(ids, this.#targetRule(tool), args);
    const family = this.familyOf(tool);
    const decided = this.#byFleet(tool, caller, family);
    if (decided instanceof Rejection) {
      return decided;
    }
    const { view, familyView, probing } = decided;
    const ofFamily = this.#byOwnFamily(tool, family, familyView, probing !== null && probing === familyView);
    if (ofFamily instanceof Rejection) {
      return ofFamily;
    }
    const familyProbe =
      ofFamily !== null &&
      ((probing !== null && probing === familyView) || (ofFamily.breakerPermit?.probe ?? null) !== null);
    const own = view?.overrides ? null : this.#byOwnCircuit(tool, caller, view, familyProbe);
    if (own instanceof Rejection) {
      this.#release(null, ofFamily, []);
      return own;
    }
    const fleetMs = Math.min(view?.overdueAfterMs ?? Infinity, familyView?.overdueAfterMs ?? Infinity);
    const limits = limitsOf([own?.circuit, ofFamily?.circuit], fleetMs);
    const held =
      own === null ? [] : this.reporter.credentials.admit(tool, family?.name ?? null, caller, own.circuit, clock.now());
    if (held instanceof Rejection) {
      this.#release(own, ofFamily, []);
      return held;
    }
    const permit = (gateway: GatewayPermit | null, turn: Turn | null = null): Permit => {
      const started = clock.now();
      const given = new Permit(this.reporter, {
        tool,
        circuit: own?.circuit ?? null,
        breakerPermit: own?.permit ?? null,
        started,
        generation: gateway === null ? (this.#fleet?.generation(view) ?? null) : gateway.generation,
        caller,
        family: ofFamily,
        gateway,
        held,
        turn,
      });
      // The gateway that permitted a call knows no reports about it, only its end.
      overdue.begin(given, gateway === null ? limits : { ...limits, fleetMs: Infinity }, started);
      return given;
    };
    const fleet = this.#fleet;
    if (fleet === null || (probing === null && !fleet.turns.tools.has(tool))) {
      return permit(null); // most calls
    }
    const refused = (refusal: Rejection): Rejection => {
      this.#release(own, ofFamily, held);
      return refusal;
    };
    const asking: Asking = { tool, caller, family, permit: (turn) => permit(null, turn), refused };
    if (probing === null) {
      return this.#turn(fleet, asking);
    }
    if (!fleet.mayAsk(probing)) {
      return refused(fleet.rejection(probing, tool));
    }
    return fleet.ask(probing, tool, caller).then((answer) => {
      if (answer instanceof Rejection) {
        return refused(answer);
      }
      return answer === "away" ? this.#turn(fleet, asking) : permit(answer);
    });
  }

  /** Return whether a call would be refused now. It takes nothing and asks no gateway. */
  isOpen(tool: string, ids: Caller): boolean {
    this.reporter.overdue.look(this.reporter.clock.now());
    const caller = aimed(ids, this.#targetRule(tool), []);
    const family = this.familyOf(tool);
    const ofFamily = family === null ? "passes" : this.#familyIsOpen(family);
    if (ofFamily === "refuses") {
      return true;
    }
    const view = this.#fleet?.view(tool, caller) ?? null;
    if (this.#fleet !== null && view !== null) {
      if (!view.passes && (view.forced || ofFamily !== "fleet_probe") && this.#fleet.answer(view) === "refuse") {
        return true;
      }
      if (view.overrides) {
        return false;
      }
    }
    const circuit = this.local.known(tool, caller.userId, caller.sessionId, caller.target);
    if (circuit === null) {
      return false;
    }
    if (ofFamily !== "passes") {
      return circuit.breaker.state === "forced_open"; // the family's probe passes an open circuit of the tool
    }
    const now = this.reporter.clock.now();
    return (
      circuit.breaker.wouldRefuse(now) ||
      this.reporter.credentials.wouldRefuse(tool, family?.name ?? null, caller, circuit, now)
    );
  }

  /** Return a permit for a call that goes whatever the circuits say, because nothing else is left. It counts nowhere but in its event. */
  unguarded(tool: string, ids: Caller, args: readonly unknown[]): Permit {
    const caller = aimed(ids, this.#targetRule(tool), args);
    const started = this.reporter.clock.now();
    return new Permit(this.reporter, {
      tool,
      circuit: null,
      breakerPermit: null,
      started,
      generation: null,
      caller,
      family: null,
      gateway: null,
      held: [],
      turn: null,
    });
  }

  /** Return the `target` in force: the fleet's, so that all processes keep the same circuits, else that of the process's policy. */
  #targetRule(tool: string): string | null {
    return this.#fleet?.circuit(circuitId(tool))?.target ?? this.local.targetRule(tool);
  }

  #byFleet(tool: string, caller: Caller, family: Family | null): FleetDecision {
    const fleet = this.#fleet;
    if (fleet === null) {
      return { view: null, familyView: null, probing: null };
    }
    const view = fleet.view(tool, caller);
    const familyView = family === null ? null : fleet.circuit(family.circuitId);
    if (familyView !== null && !familyView.passes) {
      if (view?.forced && fleet.answer(view) === "refuse") {
        return fleet.rejection(view, tool);
      }
      const answer = fleet.answer(familyView);
      if (answer === "refuse" || (answer === "pass" && !fleet.admits(familyView))) {
        return fleet.rejection(familyView, tool);
      }
      if (answer === "ask" && fleet.reachable(familyView)) {
        return { view, familyView, probing: familyView }; // it may call the tool although the tool's circuit is open
      }
    }
    if (view !== null && !view.passes) {
      const answer = fleet.answer(view);
      if (answer === "refuse" || (answer === "pass" && !fleet.admits(view))) {
        return fleet.rejection(view, tool);
      }
      return { view, familyView, probing: answer === "ask" && fleet.reachable(view) ? view : null };
    }
    return { view, familyView, probing: null };
  }

  /** Decide by the process's own circuit of the family. A fleet's probe goes although it refuses. */
  #byOwnFamily(
    tool: string,
    family: Family | null,
    view: CircuitView | null,
    probes: boolean,
  ): FamilyPermit | Rejection | null {
    if (family === null) {
      return null;
    }
    const generation = this.#fleet?.generation(view) ?? null;
    const circuit = view?.overrides || this.families === null ? null : this.families.get(family);
    if (circuit === null) {
      return { name: family.name, circuit, breakerPermit: null, generation };
    }
    const answer = circuit.breaker.tryAcquire(this.reporter.clock.now());
    if (!answer.ok && !probes) {
      return this.#localRefusal(tool, answer, circuit, view);
    }
    return { name: family.name, circuit, breakerPermit: answer.ok ? answer : null, generation };
  }

  #byOwnCircuit(
    tool: string,
    caller: Caller,
    view: CircuitView | null,
    familyProbe: boolean,
  ): { circuit: LocalCircuit; permit: BreakerPermit | null } | Rejection {
    const circuit = this.local.get(tool, caller.userId, caller.sessionId, caller.target);
    const answer = circuit.breaker.tryAcquire(this.reporter.clock.now());
    if (answer.ok) {
      return { circuit, permit: answer };
    }
    if (familyProbe && answer.state !== "forced_open") {
      return { circuit, permit: null };
    }
    return this.#localRefusal(tool, answer, circuit, view);
  }

  /** Ask for the call's turn, if the fleet keeps a limit of the tool. Only a call that waits for it takes time. */
  #turn(fleet: FleetCircuits, asking: Asking): Permit | Rejection | Promise<Permit | Rejection> {
    const { tool, caller, permit } = asking;
    const { turns } = fleet;
    const view = fleet.circuit(circuitId(tool));
    if (view === null || !view.keepsPace) {
      return permit(null);
    }
    const turn = turns.ask(view, caller);
    if (turn.waitS === 0) {
      return permit(turn);
    }
    const waits = turns.wait(turn, view);
    if (waits === null) {
      return this.#late(fleet, asking, turn, view);
    }
    fleet.refusals.refused(turns.refusal(view, turn), caller, null, true);
    return this.#wait(fleet, asking, turn, waits);
  }

  /** Return the permit of a call when its turn comes, unless a circuit refuses it by then, or the refusal if it comes too late. */
  async #wait(fleet: FleetCircuits, asking: Asking, turn: Turn, begun: Promise<void>): Promise<Permit | Rejection> {
    const { turns } = fleet;
    const { tool, caller, family, permit, refused } = asking;
    for (let waits: Promise<void> | null = begun; ;) {
      await waits;
      const ofFamily = family === null ? null : fleet.circuit(family.circuitId);
      for (const each of [ofFamily, fleet.view(tool, caller)]) {
        if (each !== null && !each.passes && !each.recovers) {
          turns.leave(turn);
          return refused(fleet.rejection(each, tool));
        }
      }
      const view = fleet.circuit(circuitId(tool));
      if (view === null || turns.look(turn, view) === 0) {
        turns.waited(turn);
        return permit(turn);
      }
      waits = turns.wait(turn, view);
      if (waits === null) {
        turns.waited(turn);
        return this.#late(fleet, asking, turn, view);
      }
    }
  }

  #late({ turns }: FleetCircuits, { refused }: Asking, turn: Turn, view: CircuitView): Rejection {
    turns.leave(turn);
    turn.pace.refused += 1;
    return refused(turns.refusal(view, turn));
  }

  #familyIsOpen(family: Family): "passes" | "refuses" | "fleet_probe" | "local_probe" {
    const fleet = this.#fleet;
    const view = fleet?.circuit(family.circuitId) ?? null;
    if (fleet !== null && view !== null) {
      if (!view.passes && !view.recovers) {
        if (fleet.answer(view) === "refuse") {
          return "refuses";
        }
        if (fleet.reachable(view)) {
          return "fleet_probe";
        }
      }
      if (view.overrides) {
        return "passes";
      }
    }
    const breaker = this.families?.get(family).breaker;
    if (breaker === undefined) {
      return "passes";
    }
    if (breaker.wouldRefuse(this.reporter.clock.now())) {
      return "refuses";
    }
    return PASSING.includes(breaker.state) ? "passes" : "local_probe";
  }

  /** Return what the circuits say of a tool, for a list that a model sees. It takes nothing and asks no gateway. */
  condition(tool: string, caller: Caller): Condition {
    if (this.isOpen(tool, caller)) {
      return REFUSES;
    }
    const family = this.familyOf(tool);
    const view = this.#fleet?.view(tool, caller) ?? null;
    const familyView = family === null ? null : (this.#fleet?.circuit(family.circuitId) ?? null);
    const circuits = [
      family === null || familyView?.overrides ? null : (this.families?.get(family) ?? null),
      view?.overrides ? null : this.local.known(tool, caller.userId, caller.sessionId, caller.target),
    ];
    const isDown =
      [view, familyView].some((each) => each !== null && !each.passes && !each.recovers) ||
      circuits.some((each) => each !== null && !PASSING.includes(each.breaker.state));
    return isDown ? DUE : UP;
  }

  #release(
    own: { circuit: LocalCircuit; permit: BreakerPermit | null } | null,
    family: FamilyPermit | null,
    held: Held,
  ): void {
    const now = this.reporter.clock.now();
    this.reporter.credentials.giveBack(held, now);
    if (own !== null && own.permit !== null) {
      own.circuit.breaker.release(own.permit, now);
    }
    if (family?.circuit && family.breakerPermit !== null) {
      family.circuit.breaker.release(family.breakerPermit, now);
    }
  }

  #localRefusal(tool: string, refused: BreakerRejection, circuit: LocalCircuit, view: CircuitView | null): Rejection {
    const { reason, lastError, lastErrorClass } = circuit.words();
    const { family, scope, target } = circuit;
    const { state, retryAfterS, cause } = refused;
    return new Rejection({
      tool,
      state,
      source: "local",
      reason: cause?.rule === "recovery_ramp" ? recoveryInWords(cause.value ?? 1, cause.reason) : reason,
      retryAfterS,
      lastError,
      lastErrorClass,
      includeLastError: circuit.includeLastError,
      generation: view?.generation ?? null,
      scope: this.ofSession ? "session" : scope,
      cause,
      family,
      target,
    });
  }
}
