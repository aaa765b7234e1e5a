import type { Classification } from "../classify/classification.js";
import { later, type Clock } from "../wire/timing.js";
import type { LocalCircuit } from "./local-circuits.js";

/**
 * Return the class of a failed call. A cancelled one is a timeout if its caller had waited too long. A text comes from somebody
 * who was told that it was cancelled, such as a person.
 */
export function givenUp(error: unknown, found: Classification, waitedMs: number, limitMs: number): Classification {
  const late = found.errorClass === "cancelled" && typeof error !== "string" && waitedMs >= limitMs;
  return late ? { errorClass: "timeout" } : found;
}

/** After how many milliseconds a call is overdue. Infinite: never. */
export interface OverdueLimits {
  /** For the circuits of this process. */
  readonly localMs: number;
  /** For the fleet. */
  readonly fleetMs: number;
}

/** How long a call had run when somebody was told that it is overdue. Null if they weren't. */
export interface Told {
  readonly localMs: number | null;
  readonly fleetMs: number | null;
}

/**
 * Return after how long a call is overdue. The least limit of its circuits holds for this process. The fleet has its own, and theirs
 * while it has none. A circuit with a rate of slow calls alone takes what the fleet has learned, but five seconds at least.
 */
export function limitsOf(circuits: readonly (LocalCircuit | null | undefined)[], fleetMs: number): OverdueLimits {
  const each = circuits.map((circuit) => {
    if (!circuit) {
      return Infinity;
    }
    const { lateMs, policy } = circuit.breaker;
    const learns = policy.slow_call_duration_threshold_ms === null && fleetMs < Infinity;
    return learns ? Math.max(lateMs, fleetMs) : lateMs;
  });
  const localMs = Math.min(Infinity, ...each);
  return { localMs, fleetMs: fleetMs < Infinity ? fleetMs : localMs };
}

/**
 * The calls under way whose lateness counts somewhere.
 *
 * The circuits of this process are told when somebody asks a circuit (`look`): nobody can see it earlier. The others of a fleet can,
 * so with a fleet a timer looks as well.
 */
export class OverdueCalls<Permit extends object> {
  readonly #local: WaitingCalls<Permit>;
  readonly #fleet: WaitingCalls<Permit> | null;
  /** When the timer looks, in monotonic seconds. */
  #looksAt = Infinity;
  #cancel: () => void = () => {};

  /** Each function is called with a call that goes on, now, after some milliseconds. `tellFleet` is null without a fleet. */
  constructor(
    private readonly clock: Clock,
    tellCircuits: Tell<Permit>,
    tellFleet: Tell<Permit> | null,
  ) {
    this.#local = new WaitingCalls(tellCircuits);
    this.#fleet = tellFleet === null ? null : new WaitingCalls(tellFleet);
  }

  /** Watch a call that begins. */
  begin(permit: Permit, limits: OverdueLimits, now: number): void {
    this.#local.begin(permit, limits.localMs, now);
    this.#fleet?.begin(permit, limits.fleetMs, now);
    this.#lookAt(now + limits.fleetMs / 1000, now);
  }

  /** Note that the caller does not wait for the tool until `resume`. */
  rest(permit: Permit): void {
    this.#local.rest(permit);
    this.#fleet?.rest(permit);
  }

  /** Note that the caller waits for the tool again, from `now` on. */
  resume(permit: Permit, now: number): void {
    this.#local.resume(permit, now);
    const limitMs = this.#fleet?.resume(permit, now) ?? Infinity;
    this.#lookAt(now + limitMs / 1000, now);
  }

  /** Note that the call has ended. */
  end(permit: Permit): Told {
    return { localMs: this.#local.end(permit), fleetMs: this.#fleet?.end(permit) ?? null };
  }

  /** Tell those for whom it counts of each call that is overdue. */
  look(now: number): void {
    this.#local.look(now);
    if (this.#fleet !== null) {
      this.#lookAt(this.#fleet.look(now), now);
    }
  }

  #lookAt(due: number, now: number): void {
    // a timer that is late belongs to a request that has ended, and with it its timers
    if (this.#fleet !== null && (due < this.#looksAt || (due < Infinity && now > this.#looksAt + LATE_S))) {
      this.#cancel();
      this.#looksAt = due;
      this.#cancel = later(Math.max(0.001, Math.min(due - now, MOST_TIMER_S)), () => {
        this.#looksAt = Infinity;
        this.look(this.clock.now());
      });
    }
  }
}

type Tell<Permit> = (permit: Permit, now: number, ranMs: number) => void;

/** A timer that has not fired for so long after its time never will, in seconds. */
const LATE_S = 60;
/** Timers of more than 24 days fire at once, so a longer wait looks in between. */
const MOST_TIMER_S = 3_600;

/** The calls that somebody must be told of. Each is told once, when it has run for its limit. */
class WaitingCalls<Permit extends object> {
  /** By limit in milliseconds, since when the caller of each call waits. The one that waits longest comes first. */
  readonly #waiting = new Map<number, Map<Permit, number>>();
  /** The limits of the calls that are watched. */
  readonly #limits = new WeakMap<Permit, number>();
  readonly #toldMs = new WeakMap<Permit, number>();

  constructor(private readonly tell: Tell<Permit>) {}

  begin(permit: Permit, limitMs: number, now: number): void {
    if (limitMs < Infinity) {
      this.#limits.set(permit, limitMs);
      this.resume(permit, now);
    }
  }

  rest(permit: Permit): void {
    const limitMs = this.#limits.get(permit);
    const waiting = limitMs === undefined ? undefined : this.#waiting.get(limitMs);
    if (waiting?.delete(permit) && waiting.size === 0) {
      this.#waiting.delete(limitMs!);
    }
  }

  /** Return the limit if somebody is still to be told, else infinity. */
  resume(permit: Permit, now: number): number {
    const limitMs = this.#limits.get(permit);
    if (limitMs === undefined || this.#toldMs.has(permit)) {
      return Infinity;
    }
    let waiting = this.#waiting.get(limitMs);
    if (waiting === undefined) {
      waiting = new Map();
      this.#waiting.set(limitMs, waiting);
    }
    waiting.delete(permit);
    waiting.set(permit, now);
    return limitMs;
  }

  /** Return how long the call had run when it was told, or null if it wasn't. */
  end(permit: Permit): number | null {
    this.rest(permit);
    return this.#toldMs.get(permit) ?? null;
  }

  /** Tell of each call that is overdue. Return when the next one will be, in monotonic seconds. */
  look(now: number): number {
    let next = Infinity;
    for (const [limitMs, waiting] of [...this.#waiting]) {
      for (const [permit, since] of waiting) {
        const due = since + limitMs / 1000;
        if (due > now) {
          next = Math.min(next, due);
          break;
        }
        this.rest(permit);
        const ranMs = Math.max((now - since) * 1000, limitMs);
        this.#toldMs.set(permit, ranMs);
        this.tell(permit, now, ranMs);
      }
    }
    return next;
  }
}
