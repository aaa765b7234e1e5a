import { Evidence } from "./evidence.js";
import { HalfOpen } from "./half-open.js";
import type { Policy } from "./policy.js";
import { Ramp } from "./ramp.js";
import {
  COUNTING,
  IDLE_S,
  IllegalTransitionError,
  PASSING,
  STALE_S,
  STATE_OF_MODE,
  endOfWait,
  outageBegan,
} from "./states.js";
import type { BreakerPermit, BreakerRejection, Cause, CircuitState, Counts, Result, Transition } from "./values.js";

/**
 * The state machine of one circuit, folded from results, timers and commands. It does no I/O and reads no clock: the same calls with
 * the same times give the same state.
 *
 * Times are seconds of one clock. If `now` goes backwards, the latest instant counts on. A probe is permitted at `now >= openUntil`.
 * Rules compare by `>=` and are evaluated on every result. An ignored result changes nothing, unless it names a rejected credential.
 *
 * A call that takes too long can be reported as overdue before it ends. It is then a slow call of the window, and its end counts it no
 * second time. An overdue probe has decided.
 */
export class Breaker {
  /** The state as of the last call. Call `advance` first to apply timers. */
  state: CircuitState;
  /** Number of changes of state so far. */
  generation = 0;
  /** Opens in a row without a close between them. A close by a ramp counts once the ramp is over. */
  attempt = 0;
  changedAt: number;
  /** When the first probe is permitted. A half-open circuit keeps it. */
  openUntil: number | null = null;
  cause: Cause | null = null;
  /** Called with every change of state. */
  onMove: ((moved: Transition) => void) | null = null;
  #previous: CircuitState | null = null;
  #clock: number;
  #retryAt: number | null = null;
  #rejected = 0;
  #totalCalls = 0;
  #totalFailed = 0;
  #halfOpen: HalfOpen | null = null;
  #ramp: Ramp | null = null;
  readonly #evidence: Evidence;

  constructor(
    readonly circuitId: string,
    readonly policy: Policy,
    now: number,
  ) {
    this.state = STATE_OF_MODE[policy.mode];
    this.#clock = now;
    this.changedAt = now;
    this.#evidence = new Evidence(policy, now);
  }

  /** Share of the calls that are permitted while closed. Below 1 during a ramp. */
  get admittedShare(): number {
    return this.#ramp?.share ?? 1;
  }

  /** After how many milliseconds a call is overdue. It is infinite if the policy has no rule for slow calls. */
  get lateMs(): number {
    return this.#evidence.limits.lateMs;
  }

  /** How many more probes are permitted now. It is 0 if the circuit is not half-open. */
  get remainingProbes(): number {
    return this.#halfOpen === null ? 0 : Math.max(0, this.#halfOpen.room(this.policy));
  }

  /** Ask whether a call may be made now. An open circuit whose wait is over becomes half-open here. */
  tryAcquire(now: number): BreakerPermit | BreakerRejection {
    if (PASSING.includes(this.state)) {
      this.advance(now);
      const ramp = this.#ramp;
      if (ramp !== null && !ramp.admitsNext()) {
        const cause = withReason({ rule: "recovery_ramp", value: ramp.share }, ramp.reason);
        return this.#reject(ramp.restOfStepS(this.policy, this.#clock), cause);
      }
      const startedAt = this.#evidence.window.fixed || ramp !== null ? this.#clock : null;
      return { ok: true, generation: this.generation, probe: null, startedAt };
    }
    if (this.state === "open" && this.openUntil !== null && now < this.openUntil) {
      return this.#reject(this.openUntil - now, this.cause);
    }
    this.advance(now);
    this.#endWait();
    if (this.#halfOpen !== null && this.remainingProbes > 0) {
      return { ok: true, generation: this.generation, probe: this.#halfOpen.lease(this.generation), startedAt: null };
    }
    return this.#reject(this.retryAfterS(now), this.cause);
  }

  /** Return whether `tryAcquire` would refuse at `now`. It takes no probe. During a ramp it is false. */
  wouldRefuse(now: number): boolean {
    if (this.openAt(now) !== null) {
      return true;
    }
    return this.state === "forced_open" || (this.#halfOpen !== null && this.remainingProbes === 0);
  }

  /** Apply timers, and return until when calls are refused. Return null if no such instant is known. */
  openAt(now: number): number | null {
    this.advance(now);
    const until = this.openUntil;
    return this.state === "open" && until !== null && now < until ? until : null;
  }

  /** Give a permit back, because the call was not made. */
  release(permit: BreakerPermit, now: number): void {
    this.advance(now);
    if (permit.generation === this.generation) {
      this.#halfOpen?.giveBack(permit.probe);
    }
  }

  /**
   * Count a call that finished at `now`, or is overdue then. Return the transition that followed, if any.
   *
   * The result is dropped if its permit is used, of an older generation or of an earlier fixed window. Without a permit it counts
   * only in a closed circuit.
   */
  record(now: number, result: Result, permit: BreakerPermit | null): Transition | null {
    if (COUNTING.includes(this.state)) {
      return this.#recordClosed(now, result, permit);
    }
    const moved = this.advance(now);
    if (result.kind === "overdue" && !this.#evidence.late(result.durationMs)) {
      return moved; // a probe goes on
    }
    const current = permit !== null && permit.generation === this.generation;
    if (!current || this.#halfOpen === null || !this.#halfOpen.giveBack(permit.probe)) {
      return moved;
    }
    return this.#countProbe(this.#halfOpen, result) ?? moved;
  }

  /** Note that these tools were called, also if no result of them is recorded. For the circuit of a family. */
  noteTools(names: Iterable<string>): void {
    this.#evidence.noteTools(names);
  }

  /** Permit a probe of an open circuit at once. Return null, unchanged, if an operator opened it or its wait is over. */
  endWaitEarly(now: number, cause: Cause): Transition | null {
    const at = Math.max(now, this.#clock);
    if (this.state !== "open" || this.cause?.rule === "command" || this.openUntil === null || this.openUntil <= at) {
      return null;
    }
    this.#clock = this.openUntil = at;
    return this.#stay(cause);
  }

  /** Return whether forgetting the circuit changes no decision. It is false for an open, commanded or counting circuit. */
  mayRetire(now: number): boolean {
    if (this.state !== STATE_OF_MODE[this.policy.mode] || !PASSING.includes(this.state)) {
      return false;
    }
    if (this.#ramp !== null && !this.#ramp.over(this.policy, now)) {
      return false;
    }
    const { cusum, streak, runAgeS } = this.#evidence;
    const needed = cusum > 0 ? STALE_S : streak > 0 ? Math.max(IDLE_S, runAgeS) : IDLE_S;
    return now - this.#clock >= needed && this.counts(now).calls === 0;
  }

  /** Apply timers up to `now`. An undecided half-open stay ends in open, dated at the instant at which it was due. */
  advance(now: number): Transition | null {
    this.#clock = Math.max(this.#clock, now);
    if (this.#ramp !== null) {
      return this.#climb(this.#ramp);
    }
    const limit = this.policy.max_wait_duration_in_half_open_state_s;
    const due = this.changedAt + limit;
    if (this.#halfOpen === null || this.#clock < due) {
      return null;
    }
    return this.#move(
      "open",
      { rule: "half_open_timeout", value: limit, threshold: limit, sample: this.#halfOpen.finished },
      due,
    );
  }

  /** Close, and forget the evidence. */
  reset(now: number, actor: string): Transition | null {
    this.#clock = Math.max(this.#clock, now);
    const cause: Cause = { rule: "command", actor };
    if (this.#ramp !== null) {
      this.#ramp = null;
      this.attempt = 0;
    }
    if (this.state !== "closed") {
      return this.#move("closed", cause);
    }
    this.#evidence.clear();
    this.#retryAt = null;
    this.#rejected = 0;
    return this.#stay(cause);
  }

  /**
   * Move to a state directly, by a command. If it is the present state, nothing changes.
   *
   * @param openForS For `open`: the seconds until the first probe, in place of the policy's wait.
   * @throws IllegalTransitionError The circuit is closed and `state` is `half_open`.
   */
  transitionTo(state: CircuitState, now: number, actor: string, openForS: number | null = null): Transition | null {
    this.advance(now);
    if (this.state === "closed" && state === "half_open") {
      throw new IllegalTransitionError(this.circuitId);
    }
    const until = openForS === null ? null : this.#clock + openForS;
    return this.#move(state, { rule: "command", actor }, this.#clock, until);
  }

  /** Return the counts of the window at `now`. An open circuit has those that opened it, and the calls rejected since. */
  counts(now: number): Counts {
    return this.#evidence.counts(Math.max(now, this.#clock), this.#rejected, this.#totalCalls, this.#totalFailed);
  }

  /** Return the seconds until the first probe, or null if that is not known. Only an open circuit knows it. */
  retryAfterS(now: number): number | null {
    return this.state === "open" && this.openUntil !== null
      ? Math.max(0, this.openUntil - Math.max(now, this.#clock))
      : null;
  }

  #reject(retryAfterS: number | null, cause: Cause | null): BreakerRejection {
    this.#rejected += 1;
    return { ok: false, state: this.state, generation: this.generation, retryAfterS, cause };
  }

  #recordClosed(now: number, result: Result, permit: BreakerPermit | null): Transition | null {
    this.#clock = Math.max(this.#clock, now);
    const climbed = this.#ramp === null ? null : this.#climb(this.#ramp);
    if (permit !== null && permit.generation < this.generation) {
      return climbed;
    }
    const window = this.#evidence.window;
    if (
      window.fixed &&
      permit !== null &&
      permit.startedAt !== null &&
      window.beganEarlier(permit.startedAt, this.#clock)
    ) {
      return climbed;
    }
    return (this.#add(result) ? this.#judge() : null) ?? climbed;
  }

  /** Add a result to the evidence. Return whether it counts. */
  #add(result: Result): boolean {
    if (result.kind === "ignored") {
      const { credential = "", reporter } = result;
      if (credential !== "" && this.#evidence.limits.denied > 0) {
        return this.#evidence.addDenied(this.#clock, credential, reporter);
      }
      this.#evidence.window.addIgnored(this.#clock);
      return false;
    }
    if (result.kind === "overdue") {
      return this.#evidence.addOverdue(this.#clock, result); // the totals and a ramp count its end
    }
    const failed = result.kind === "failure";
    this.#totalCalls += 1;
    if (failed) {
      this.#totalFailed += 1;
      if (result.retryAfterS !== null) {
        this.#retryAt = Math.max(this.#retryAt ?? 0, this.#clock + result.retryAfterS);
      }
    }
    this.#evidence.add(this.#clock, result);
    this.#ramp?.add(failed);
    return true;
  }

  #judge(): Transition | null {
    const ofRamp = this.#ramp === null ? null : this.#evidence.confirmed(this.#ramp.breach(this.policy));
    const cause = ofRamp ?? this.#evidence.breach(this.#clock);
    if (cause === null) {
      return null;
    }
    if (this.state !== "metrics_only") {
      return this.#move("open", cause);
    }
    if (this.openUntil !== null && this.#clock < this.openUntil) {
      return null; // an enforcing circuit would be open now
    }
    this.#beginWait(this.#clock);
    return this.#stay({ ...cause, reason: "would have opened" });
  }

  #countProbe(halfOpen: HalfOpen, result: Result): Transition | null {
    this.#add(result);
    if (result.kind === "ignored") {
      halfOpen.ignored += 1;
    } else if (result.kind === "overdue") {
      this.#totalCalls += 1; // its end is dropped
      halfOpen.add(false, true);
    } else {
      const { limits } = this.#evidence;
      const slow = result.durationMs > limits.slowMs || this.#evidence.late(result.overdueMs);
      halfOpen.add(result.kind === "failure", slow);
    }
    const verdict = halfOpen.verdict(this.policy);
    return verdict === null ? null : this.#move(verdict.closes ? "closed" : "open", verdict.cause);
  }

  #beginWait(at: number): void {
    this.attempt += 1;
    this.openUntil = endOfWait(this.circuitId, this.attempt, this.policy, at, this.#retryAt);
  }

  #endWait(): void {
    if (this.state === "open" && this.openUntil !== null && this.#clock >= this.openUntil) {
      this.#move("half_open", { rule: "wait_elapsed" });
    }
  }

  #move(
    state: CircuitState,
    cause: Cause,
    at: number = this.#clock,
    openUntil: number | null = null,
  ): Transition | null {
    if (state === this.state) {
      return null;
    }
    const previous = this.state;
    const ramp = this.#ramp;
    this.#previous = previous;
    this.state = state;
    this.generation += 1;
    this.changedAt = at;
    this.cause = cause;
    this.#rejected = 0;
    this.#halfOpen = this.#ramp = null;
    if (state === "open") {
      this.#retryAt = this.#retryAtOfOutage(at, ramp);
      this.#beginWait(at);
      this.openUntil = openUntil ?? this.openUntil;
    } else {
      this.#evidence.clear();
      if (state === "half_open") {
        this.#halfOpen = new HalfOpen();
        this.openUntil ??= at;
      } else {
        this.#close(state, at);
      }
    }
    const moved = this.#transition(previous, this.cause);
    this.onMove?.(moved);
    return moved;
  }

  /** Enter a state that isn't open. After a close by probes, a ramp may begin. */
  #close(state: CircuitState, at: number): void {
    const rateLimited = this.#retryAt !== null;
    const cause = this.cause!;
    this.openUntil = this.#retryAt = null;
    if (this.#previous === "half_open" && state === "closed" && cause.rule !== "command") {
      this.#ramp = Ramp.begin(this.policy, at, rateLimited);
    }
    if (this.#ramp === null) {
      this.attempt = 0;
    } else {
      this.cause = withReason(cause, this.#ramp.reason);
    }
  }

  /** Return the end of the Retry-After if the tool asked to wait in the outage in which the circuit opens now. */
  #retryAtOfOutage(at: number, ramp: Ramp | null): number | null {
    if (ramp?.rateLimited) {
      return this.#retryAt ?? at; // a recovery that fails belongs to the outage
    }
    const earlier = this.#previous !== "half_open" && (this.#retryAt ?? 0) < outageBegan(this.policy, at);
    return earlier ? null : this.#retryAt;
  }

  #climb(ramp: Ramp): Transition | null {
    const share = ramp.climb(this.policy, this.#clock);
    if (share === null) {
      return null;
    }
    if (share === 1) {
      this.#ramp = null;
      this.attempt = 0;
    }
    return {
      ...this.#stay(withReason({ rule: "recovery_ramp", value: share }, ramp.reason)),
      at: ramp.beganStepAt(this.policy),
    };
  }

  #stay(cause: Cause): Transition {
    this.cause = cause;
    return this.#transition(this.state, cause);
  }

  #transition(previous: CircuitState, cause: Cause): Transition {
    const { circuitId, state, generation, openUntil } = this;
    return {
      circuitId,
      previous,
      state,
      generation,
      at: previous === state ? this.#clock : this.changedAt,
      cause,
      openUntil,
    };
  }
}

function withReason(cause: Cause, reason: string | undefined): Cause {
  return reason === undefined ? cause : { ...cause, reason };
}
