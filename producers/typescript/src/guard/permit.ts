import type { BreakerPermit, ResultKind, Status } from "../breaker/values.js";
import { LEAST_OVERDUE_MS, familyResultKind, resultKind, statusOf } from "../breaker/values.js";
import type { ErrorClass } from "../breaker/policy.js";
import { outageInText } from "../classify/by-text.js";
import { IGNORE, checkedClass, type Classification, type Classifier } from "../classify/classification.js";
import { classify } from "../classify/classify.js";
import { MOST, type ExecutionInput } from "../emitter/execution.js";
import type { Outcome } from "../emitter/outcomes.js";
import { SwitchgearError } from "../errors.js";
import { redact } from "../text/redact.js";
import type { Clock } from "../wire/timing.js";
import type { Warnings } from "../wire/warnings.js";
import type { Caller } from "./caller.js";
import { Credentials, credentialKind, type Held } from "./credentials.js";
import type { FleetCircuits, GatewayPermit } from "./fleet-circuits.js";
import type { LocalCircuit } from "./local-circuits.js";
import { OverdueCalls, givenUp } from "./overdue.js";
import type { Turn } from "./turns.js";
import { totalTokens, type SessionLimits, type Usage } from "./session-limits.js";

/** The most characters of a message that `redact` looks at. */
const CONSIDERED = 4_001;
/** `error_type` of an outage that a tool reported of the call's target. The tool answered, so it says nothing about its server. */
const TARGET_ERROR = "TargetError";
/** Classes of errors that a session's `maxFailures` doesn't count: no tool failed. */
const NOT_FAILED: readonly ErrorClass[] = ["cancelled", "policy"];

/** What a report may say about the call. */
export interface CallValues extends Usage {
  /** How long the call took, if you measured it yourself. Else the time since the permit. */
  readonly durationMs?: number | undefined;
  /** Bytes or characters of the result. */
  readonly outputSize?: number | undefined;
  /** Anything else to send with the event. */
  readonly metadata?: Readonly<Record<string, unknown>> | undefined;
}

/** What a permit of a tool holds of the tool's family. */
export interface FamilyPermit {
  readonly name: string;
  /** This process's circuit of the family; null if it wasn't asked. */
  readonly circuit: LocalCircuit | null;
  readonly breakerPermit: BreakerPermit | null;
  /** Generation of the fleet's circuit of the family; null if it isn't known. */
  readonly generation: number | null;
}

interface PermitState {
  readonly tool: string;
  /** This process's circuit; null if it wasn't asked. */
  readonly circuit: LocalCircuit | null;
  readonly breakerPermit: BreakerPermit | null;
  /** When the call began, in monotonic seconds. */
  readonly started: number;
  /** Generation of the fleet's circuit; null if it isn't known. */
  readonly generation: number | null;
  readonly caller: Caller;
  readonly family: FamilyPermit | null;
  readonly gateway: GatewayPermit | null;
  /** What it holds of its credential's runs. Nearly always empty: nothing was rejected. */
  readonly held: Held;
  /** Its turn, if the fleet keeps a limit of the tool. */
  readonly turn: Turn | null;
}

/** Permission for one call. Report its end once: success, failure, ignore or release. Later reports do nothing. */
export class Permit {
  readonly allowed = true;
  /** The session whose limits count the call. */
  session: SessionLimits | null = null;
  /** Whether a fallback tool serves the caller. */
  isFallback = false;
  /** When the caller of a stream asked for the item that it waits for now. Null: it waits since the call began. */
  #askedAt: number | null = null;
  #reported = false;

  constructor(
    private readonly reporter: Reporter,
    readonly state: PermitState,
  ) {}

  get tool(): string {
    return this.state.tool;
  }

  /** Whether the call tests if the tool has recovered, for this process or for the fleet. */
  get probe(): boolean {
    const { breakerPermit, family, gateway } = this.state;
    return (
      (gateway?.probe ?? false) ||
      (breakerPermit?.probe ?? null) !== null ||
      (family?.breakerPermit?.probe ?? null) !== null
    );
  }

  /** How long the caller of a stream has waited for an item. Null if the call is none, or hasn't yielded one. */
  waitedMs(now: number): number | null {
    return this.#askedAt === null ? null : (now - this.#askedAt) * 1000;
  }

  /** Note that the caller has an item of a stream, so that nobody waits for the tool. */
  rest(): void {
    this.reporter.overdue.rest(this);
  }

  /** Note that the caller asks for the next item. */
  resume(): void {
    this.#askedAt = this.reporter.clock.now();
    this.reporter.overdue.resume(this, this.#askedAt);
  }

  /** Report that the tool answered. */
  success(values: CallValues = {}): void {
    this.#end(undefined, null, values);
  }

  /**
   * Report that the call failed. Its class decides whether that counts against the tool.
   *
   * @param error The error, or the tool's own message (class `tool`).
   * @param classification Your own class, in place of the client's.
   */
  failure(error: unknown, classification: Classification | ErrorClass | null = null, values: CallValues = {}): void {
    this.#end({ error }, checkedClass(classification), values);
  }

  /** Report a call that says nothing about the tool's health. A probe is free for the next call. */
  ignore(error?: unknown, values: CallValues = {}): void {
    this.#end(error === undefined ? undefined : { error }, IGNORE, values);
  }

  /** Give the permit back, because you made no call. Nothing is counted or sent. */
  release(): void {
    if (!this.#reported) {
      this.#reported = true;
      this.reporter.release(this);
    }
  }

  #end(
    failed: { readonly error: unknown } | undefined,
    classification: Classification | null,
    values: CallValues,
  ): void {
    for (const [name, value] of Object.entries(values)) {
      const most = MOST[name] ?? Number.MAX_VALUE;
      if (typeof value === "number" && !(value >= 0 && value <= most)) {
        throw new SwitchgearError(`${name} is ${value}.`, `Report a number from 0 to ${most}.`);
      }
    }
    if (!this.#reported) {
      this.#reported = true;
      this.reporter.report(this, failed, classification, values);
    }
  }
}

/** Takes what permits report: to the circuits, the fleet and the session. */
export class Reporter {
  /** The calls under way. */
  readonly overdue: OverdueCalls<Permit>;

  constructor(
    readonly clock: Clock,
    readonly fleet: FleetCircuits | null,
    /** The credentials that tools reject, of all sessions. */
    readonly credentials: Credentials,
    private readonly warnings: Warnings,
    private readonly classifier: Classifier | undefined,
    private readonly redactor: ((message: string) => string) | undefined,
  ) {
    this.overdue = new OverdueCalls<Permit>(
      clock,
      (permit, now, ranMs) => this.#tellCircuits(permit, now, ranMs),
      fleet === null ? null : (permit, _now, ranMs) => this.#tellFleet(fleet, permit, ranMs),
    );
  }

  report(
    permit: Permit,
    failed: { readonly error: unknown } | undefined,
    given: Classification | null,
    values: CallValues,
  ): void {
    const { tool, circuit, breakerPermit, started, family, gateway, held, caller, turn } = permit.state;
    const now = this.clock.now();
    const durationMs = values.durationMs ?? Math.max(0, (now - started) * 1000);
    const waitedMs = permit.waitedMs(now) ?? durationMs;
    const told = this.overdue.end(permit);
    const limitMs =
      circuit?.breaker.policy.slow_call_duration_threshold_ms ??
      this.fleet?.circuit(tool)?.overdueAfterMs ??
      LEAST_OVERDUE_MS;
    const classification =
      failed === undefined ? given : givenUp(failed.error, given ?? this.classify(failed.error), waitedMs, limitMs);
    const message = failed === undefined ? null : this.#messageOf(failed.error);
    const ofServer = classification?.errorClass ?? null;
    // A failed answer about one target is about that target, so its text may count there.
    const ofTarget = ofServer === "tool" && caller.target !== "" ? outageInText(message ?? "") : null;
    const errorClass = ofTarget ?? ofServer;
    const status: Status = failed === undefined ? "success" : statusOf(errorClass ?? "unknown");
    const errorType = failed === undefined ? null : ofTarget === null ? typeOf(failed.error) : TARGET_ERROR;
    const named = [errorType, message].filter(Boolean).join(": ") || null;
    const retryAfterS = classification?.retryAfterS ?? null;
    const credential = errorClass === "auth" ? this.credentials.holderOf(caller) : "";
    const result = {
      durationMs,
      tokens: totalTokens(values),
      retryAfterS,
      tool,
      reporter: "",
      overdueMs: told.localMs,
      credential,
    };
    const signedIn = { tool, family: family?.name ?? null, caller, circuit, held };
    this.credentials.ended(signedIn, credentialKind(status, errorClass), now);
    if (circuit !== null) {
      // If the fleet keeps the tool's limit, it learns from a 429: that is no failure.
      const learned = turn !== null && errorClass === "rate_limited";
      const kind = learned ? "ignored" : resultKind(status, errorClass, circuit.breaker.policy);
      circuit.record(now, { ...result, kind }, breakerPermit, named, errorClass);
    }
    if (family?.circuit) {
      const kind = familyResultKind(status, ofServer, family.circuit.breaker.policy);
      family.circuit.record(now, { ...result, kind }, family.breakerPermit, named, ofServer);
    }
    permit.session?.ended(values, failed !== undefined && !NOT_FAILED.includes(errorClass ?? "unknown"));
    if (this.fleet === null) {
      return;
    }
    const event: ExecutionInput = {
      tool_name: tool,
      status,
      execution_time_ms: rounded(durationMs),
      ...(told.fleetMs === null ? {} : { overdue_ms: rounded(told.fleetMs) }),
      ...caller.fields,
      ...(errorType === null ? {} : { error_type: errorType }),
      ...(message === null ? {} : { error_message: redact(message) }),
      ...(errorClass === null ? {} : { error_class: errorClass }),
      ...(retryAfterS === null ? {} : { retry_after_s: retryAfterS }),
      ...usageFields(values),
      ...(permit.isFallback ? { served_by: "fallback" } : {}),
      ...generations(permit.state.generation, family),
      ...this.#shared(this.fleet, permit, credential, values.metadata),
      recorded_at: new Date(this.clock.wall() * 1000).toISOString(),
    };
    if (gateway === null) {
      this.fleet.emitter.emit(event);
    } else {
      this.#deliver(this.fleet, gateway, event);
    }
  }

  /** Give back what the permit of a call holds that wasn't made. */
  release(permit: Permit): void {
    const { circuit, breakerPermit, family, gateway, held, turn } = permit.state;
    const now = this.clock.now();
    this.overdue.end(permit);
    if (turn !== null) {
      this.fleet?.turns.leave(turn);
    }
    this.credentials.giveBack(held, now);
    if (circuit !== null && breakerPermit !== null) {
      circuit.breaker.release(breakerPermit, now);
    }
    if (family?.circuit && family.breakerPermit !== null) {
      family.circuit.breaker.release(family.breakerPermit, now);
    }
    permit.session?.takeBack();
    if (gateway !== null) {
      this.fleet?.outcomes.send({ permit: gateway.token, status: "ignored" }, gateway.expiresAt, () => {});
    }
  }

  /** Return what an event says of the call's turn, and of its credential if the fleet may know it: it was rejected, or has a limit. */
  #shared(
    { turns }: FleetCircuits,
    { state: { caller, turn } }: Permit,
    rejected: string,
    metadata: CallValues["metadata"],
  ): Partial<ExecutionInput> {
    const credential =
      this.credentials.shared && (rejected || (turn === null ? "" : this.credentials.sharedOf(caller)));
    const found = credential ? { credential } : {};
    if (turn === null) {
      return found;
    }
    const asked = turns.say(turn.pace);
    const waitedMs = Math.round(turn.waitedS * 1000);
    const said = { ...(asked === 1 ? {} : { asked }), ...(waitedMs === 0 ? {} : { waited_ms: waitedMs }) };
    return asked === 1 && waitedMs === 0 ? found : { ...found, metadata: { ...metadata, ...said } };
  }

  /** Return what kind of failure it is: by the user's rule, else by default. A message is of class `tool`. */
  classify(error: unknown): Classification {
    if (typeof error === "string") {
      return { errorClass: "tool" };
    }
    const rule = this.classifier;
    const found =
      rule === undefined
        ? null
        : this.warnings.attempt("the client's classify failed; the default decides", () => checkedClass(rule(error)));
    return found ?? classify(error);
  }

  /** Count a call that goes on as slow, in the circuits of this process. */
  #tellCircuits(permit: Permit, now: number, ranMs: number): void {
    const { tool, circuit, breakerPermit, family } = permit.state;
    const kind: ResultKind = "overdue";
    const result = { kind, durationMs: ranMs, tokens: 0, retryAfterS: null, tool, reporter: "", overdueMs: null };
    circuit?.record(now, result, breakerPermit, null);
    family?.circuit?.record(now, result, family.breakerPermit, null);
  }

  /** Send the report about a call that goes on. */
  #tellFleet(fleet: FleetCircuits, permit: Permit, ranMs: number): void {
    const { tool, generation, family, caller } = permit.state;
    fleet.emitter.emit({
      tool_name: tool,
      status: "overdue",
      execution_time_ms: rounded(ranMs),
      ...caller.fields,
      ...generations(generation, family),
      recorded_at: new Date(this.clock.wall() * 1000).toISOString(),
    });
  }

  /** Send the end of a call to the gateway that permitted it. It records the call itself. */
  #deliver(fleet: FleetCircuits, gateway: GatewayPermit, event: ExecutionInput): void {
    const { status } = event;
    const unsaid = status === "cancelled" || status === "rejected" || status === "overdue";
    const ignored = event.error_class === "policy" || unsaid;
    const outcome: Outcome = {
      permit: gateway.token,
      status: ignored ? "ignored" : status,
      duration_ms: event.execution_time_ms ?? 0,
      ...(ignored ? {} : pick(event, ["error_class"])), // the gateway refuses a class of an ignored call
      ...pick(event, [
        "error_type",
        "error_message",
        "retry_after_s",
        "input_tokens",
        "output_tokens",
        "cost_usd",
        "metadata",
      ]),
    };
    fleet.outcomes.send(outcome, gateway.expiresAt, () => fleet.emitter.emit(event));
  }

  #messageOf(error: unknown): string | null {
    const text = typeof error === "object" && error !== null ? (error as { message?: unknown }).message : String(error);
    const message = typeof text === "string" ? text.slice(0, CONSIDERED) : null;
    const rule = this.redactor;
    if (message === null || rule === undefined) {
      return message;
    }
    return (
      this.warnings.attempt("the redact function failed; the message is withheld", () => rule(redact(message))) ??
      "[redacted]"
    );
  }
}

/** Return milliseconds to three digits. */
function rounded(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}

function generations(generation: number | null, family: FamilyPermit | null): Partial<ExecutionInput> {
  return {
    ...(generation === null ? {} : { generation }),
    ...(family === null || family.generation === null ? {} : { family_generation: family.generation }),
  };
}

function typeOf(error: unknown): string | null {
  if (typeof error !== "object" || error === null) {
    return null;
  }
  const { name } = error as { name?: unknown };
  return typeof name === "string" && name !== "" ? name : (error.constructor?.name ?? null);
}

function usageFields(values: CallValues): Partial<ExecutionInput> {
  const { inputTokens, outputTokens, cacheCreationTokens, costUsd, outputSize, metadata } = values;
  return {
    ...(inputTokens === undefined ? {} : { input_tokens: inputTokens }),
    ...(outputTokens === undefined ? {} : { output_tokens: outputTokens }),
    ...(cacheCreationTokens === undefined ? {} : { cache_creation_tokens: cacheCreationTokens }),
    ...(costUsd === undefined ? {} : { cost_usd: costUsd }),
    ...(outputSize === undefined ? {} : { output_size: outputSize }),
    ...(metadata === undefined ? {} : { metadata }),
  };
}

function pick<T extends object, K extends keyof T>(from: T, keys: readonly K[]): Partial<Pick<T, K>> {
  const found = keys.filter((key) => from[key] !== undefined).map((key) => [key, from[key]]);
  return Object.fromEntries(found) as Partial<Pick<T, K>>;
}
