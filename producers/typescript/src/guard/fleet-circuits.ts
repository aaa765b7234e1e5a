import { admits, phaseOf, recoveryInWords } from "../breaker/ramp.js";
import { circuitId, readCircuitId } from "../circuit-ids.js";
import { retryAfterIn } from "../classify/waits.js";
import { isRecord } from "../classify/tool-failure.js";
import type { Emitter } from "../emitter/emitter.js";
import type { Outcomes } from "../emitter/outcomes.js";
import type { Follower, OnStateUnavailable } from "../fleet/follower.js";
import type { GuardMode } from "../fleet/table.js";
import type { CircuitView } from "../fleet/view.js";
import { Rejection, type RejectionValues } from "../rejection.js";
import { jsonIn, problemIn, type GatewayHttp } from "../wire/http.js";
import { toJson } from "../wire/json.js";
import type { Clock } from "../wire/timing.js";
import type { Warnings } from "../wire/warnings.js";
import type { Caller } from "./caller.js";
import { RefusalReporter } from "./refusals.js";
import { Turns } from "./turns.js";

/** Wait after a request for a probe that was not granted. Until then calls are refused at once. */
const ASK_AGAIN_S = 1;
/** The process's own breakers decide for so long after a request that didn't reach the gateway. */
const AWAY_S = 1;
const MOST_ASKED = 10_000;

/** A permit that the gateway gave. */
export interface GatewayPermit {
  readonly token: string;
  readonly probe: boolean;
  readonly generation: number | null;
  /** In monotonic seconds. */
  readonly expiresAt: number;
}

/** `away`: the gateway can't be asked, so the process's own breaker decides. */
export type ProbeAnswer = GatewayPermit | Rejection | "away";

interface Asked {
  readonly version: number;
  readonly first: number;
  last: number;
}

/** Answers what the fleet says about a call, and asks the gateway for probes: one request at a time for each circuit. */
export class FleetCircuits {
  readonly refusals: RefusalReporter;
  readonly turns: Turns;
  /** Called with a family when there is a new record of its circuit, and with whether it lets calls through. */
  onFamily: ((family: string, passes: boolean) => void) | null = null;
  /** Until when a call asks for a probe of each circuit, unless its request has ended, in monotonic seconds. */
  readonly #asking = new Map<string, number>();
  readonly #asked = new Map<string, Asked>();
  /** Calls of this process by circuit, while it recovers. */
  readonly #calls = new Map<string, number>();
  #awayUntil = -Infinity;

  constructor(
    private readonly http: GatewayHttp,
    readonly follower: Follower,
    readonly emitter: Emitter,
    readonly outcomes: Outcomes,
    private readonly clock: Clock,
    private readonly warnings: Warnings,
    private readonly settings: {
      readonly onStateUnavailable: OnStateUnavailable;
      readonly stateMaxAgeS: number;
      readonly probeWaitS: number;
      readonly fleetSilenceS: number;
      readonly includeLastError: boolean;
      /** Returns by what the fleet may know the credential of a call. Empty if it can't. */
      readonly credentialOf: (caller: Caller) => string;
      /** Whether something goes on between the calls. */
      readonly background: boolean;
    },
  ) {
    this.refusals = new RefusalReporter(emitter, clock);
    this.turns = new Turns(follower, clock, () => this.wall(), settings.credentialOf, settings.background);
    this.refusals.asked = (tool, caller) => this.turns.asked(this.circuit(circuitId(tool)), caller);
    follower.table.onView = (view) => this.#onView(view);
  }

  get mode(): GuardMode {
    return this.follower.mode(this.settings.onStateUnavailable, this.settings.stateMaxAgeS);
  }

  /** The gateway's time, in seconds since 1970. */
  wall(): number {
    return this.clock.wall() - this.follower.aheadS;
  }

  /** Return the circuit of a family, or of a tool for all its callers. */
  circuit(circuitId: string): CircuitView | null {
    return this.follower.table.get(circuitId, this.mode);
  }

  /** Return the circuit that decides on a call of a tool: one that refuses, else the one of the highest generation. */
  view(tool: string, caller: Caller): CircuitView | null {
    const { table } = this.follower;
    const mode = this.mode;
    const view = table.get(circuitId(tool), mode);
    if (mode !== "deny" && caller.target !== "") {
      return table.get(circuitId(tool, "target", caller.target), mode) ?? (isCommanded(view) ? view : null);
    }
    if (mode === "deny" || !table.isScoped(tool)) {
      return view;
    }
    const ids = [circuitId(tool, "user", caller.userId), circuitId(tool, "session", caller.sessionId)];
    if (this.follower.tenant !== "") {
      ids.push(circuitId(tool, "tenant", this.follower.tenant));
    }
    const found = [view, ...ids.map((id) => table.get(id, mode))].filter((each) => each !== null);
    const refusing = found.filter((each) => !each.passes);
    if (refusing.length > 0) {
      return refusing.find((each) => !each.recovers) ?? refusing[0]!;
    }
    const rank = (each: CircuitView): number => each.generation + (each.overrides ? 1e15 : 0);
    return found.reduce<CircuitView | null>(
      (best, each) => (best === null || rank(each) > rank(best) ? each : best),
      null,
    );
  }

  /** Return what a circuit says about a call now. `ask`: a probe may go if the gateway grants it. */
  answer(view: CircuitView): "pass" | "refuse" | "ask" {
    if (view.passes || view.recovers) {
      return "pass";
    }
    const now = this.wall();
    if (view.state === "half_open" && !view.forced) {
      // Other processes probe. Without a live lease the probe is lost or done, and the next one may go.
      return view.permitsLeft <= 0 && view.leases.some((lease) => now < lease.expiresAt) ? "refuse" : "ask";
    }
    if (view.openUntil === null) {
      return view.forced ? "refuse" : "ask";
    }
    return now < view.openUntil ? "refuse" : "ask";
  }

  /** Count a call while a circuit recovers. Return whether it is one of those that this process admits. */
  admits(view: CircuitView): boolean {
    const asked = (this.#calls.get(view.circuitId) ?? 0) + 1;
    this.#calls.set(view.circuitId, asked);
    return admits(asked, view.admittedShare, phaseOf(this.emitter.emitterId));
  }

  /** Return whether the gateway can answer a request for a probe. If not, the process's own breaker decides alone. */
  reachable(view: CircuitView): boolean {
    if (this.mode !== "fleet" || this.clock.now() < this.#awayUntil) {
      return false;
    }
    const known = this.#asked.get(view.circuitId);
    return (
      known === undefined || known.version !== view.version || known.last - known.first < this.settings.fleetSilenceS
    );
  }

  /** Return the generation of a circuit. One without a record has 0 once all are loaded: it has never changed. */
  generation(view: CircuitView | null): number | null {
    if (view !== null) {
      return view.generation;
    }
    const mode = this.mode;
    return this.follower.loaded && mode !== "local_only" && mode !== "deny" ? 0 : null;
  }

  /** Return the refusal of a call of `tool` by a circuit. */
  rejection(view: CircuitView, tool: string): Rejection {
    return new Rejection(this.#refusal(view, tool));
  }

  /** Return whether a request for a probe may be sent now. */
  mayAsk(view: CircuitView): boolean {
    const known = this.#asked.get(view.circuitId);
    const waits = known !== undefined && known.version === view.version && this.clock.now() < known.last + ASK_AGAIN_S;
    return !waits && this.clock.now() >= (this.#asking.get(view.circuitId) ?? -Infinity);
  }

  /** Ask the gateway for a probe of `tool`. It never throws, and takes `probeWaitS` at most. */
  async ask(view: CircuitView, tool: string, caller: Caller): Promise<ProbeAnswer> {
    this.#asking.set(view.circuitId, this.clock.now() + this.settings.probeWaitS + 1);
    this.#noteAsked(view);
    try {
      const response = await this.http.request("/v1/decide", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: toJson({ tool, ...caller.fields }),
        timeoutS: this.settings.probeWaitS,
      });
      if (response.ok) {
        const answer = jsonIn(response);
        return this.#answered(view, tool, isRecord(answer) ? answer : {});
      }
      this.warnings.warn(
        `the gateway decided about no probe: it answered ${response.status}. ${problemIn(response.text)}`,
      );
      const wait = response.status === 429 ? retryAfterIn(response.headers) : null;
      if (wait === null) {
        this.#awayUntil = this.clock.now() + AWAY_S;
        return "away";
      }
      return this.rejection(view, tool);
    } catch (error) {
      this.warnings.warn("the gateway can't be asked for a probe; the process's own breakers decide", error);
      this.#awayUntil = this.clock.now() + AWAY_S;
      return "away";
    } finally {
      this.#asking.delete(view.circuitId);
    }
  }

  #answered(view: CircuitView, tool: string, answer: Readonly<Record<string, unknown>>): ProbeAnswer {
    const { permit, generation, expires_in_s: expiresIn } = answer;
    if (answer["allowed"] === true && typeof permit === "string") {
      this.#asked.delete(view.circuitId);
      return {
        token: permit,
        probe: answer["probe"] === true,
        generation: typeof generation === "number" ? generation : null,
        expiresAt: this.clock.now() + (typeof expiresIn === "number" ? expiresIn : 30),
      };
    }
    const {
      state,
      source,
      reason,
      retry_after_s: retryAfterS,
      last_error: lastError,
      last_error_class: lastErrorClass,
    } = answer;
    return new Rejection({
      ...this.#refusal(view, tool),
      ...(typeof state === "string" ? { state: state as RejectionValues["state"] } : {}),
      ...(source === "pace" ? { source } : {}),
      ...(typeof reason === "string" ? { reason } : {}),
      ...(typeof retryAfterS === "number" || retryAfterS === null ? { retryAfterS } : {}),
      ...(typeof lastError === "string" ? { lastError } : {}),
      ...(typeof lastErrorClass === "string" ? { lastErrorClass } : {}),
    });
  }

  #refusal(view: CircuitView, tool: string): RejectionValues {
    const left = view.openUntil === null || view.state === "half_open" ? 0 : view.openUntil - this.wall();
    return {
      tool,
      state: view.forced ? "forced_open" : view.state,
      source: "fleet",
      reason: view.recovers ? recoveryInWords(view.admittedShare, view.causeReason) : view.reason,
      retryAfterS: left > 0 ? left : null,
      lastError: view.lastError,
      lastErrorClass: view.lastErrorClass,
      includeLastError: this.settings.includeLastError,
      fallback: null,
      generation: view.generation,
      scope: view.scope,
      cause: null,
      family: view.scope === "family" ? view.tool : null,
      target: view.scope === "target" ? readCircuitId(view.circuitId).whose : "",
    };
  }

  #noteAsked(view: CircuitView): void {
    const now = this.clock.now();
    const known = this.#asked.get(view.circuitId);
    if (known !== undefined && known.version === view.version) {
      known.last = now;
      return;
    }
    if (this.#asked.size >= MOST_ASKED) {
      this.#asked.clear();
    }
    this.#asked.set(view.circuitId, { version: view.version, first: now, last: now });
  }

  #onView(view: CircuitView): void {
    if (view.scope === "tool") {
      this.turns.onView(view);
    }
    const lets = view.passes || view.recovers;
    if (lets) {
      this.#asked.delete(view.circuitId);
    }
    if (!view.recovers) {
      this.#calls.delete(view.circuitId);
    }
    if (view.scope === "family") {
      this.onFamily?.(view.tool, lets);
    }
  }
}

/**
 * Return whether an operator's command on the tool's own circuit holds for its targets, too. What that circuit counts says nothing about
 * them: calls that name no target.
 */
function isCommanded(view: CircuitView | null): boolean {
  return view !== null && (view.overrides || view.forced || view.causeRule === "command");
}
