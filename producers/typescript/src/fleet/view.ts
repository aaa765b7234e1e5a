/** A circuit's record, ready for the decision about a call. Instants are seconds since 1970. */
import type { Mode } from "../breaker/policy.js";
import type { CircuitState } from "../breaker/values.js";
import { isRecord } from "../classify/tool-failure.js";
import { readCircuitId } from "../circuit-ids.js";
import type { CircuitScope } from "../circuit-ids.js";
import { shortNumber } from "../text/short-number.js";

export interface LeaseView {
  readonly emitterId: string;
  readonly expiresAt: number;
}

/** Seconds in which a record counts the calls that were asked for. */
export const DEMAND_S = 5;

/** A rate limit of a tool: of the calls with one credential, or of all others. */
export interface LimitView {
  readonly credential: string;
  /** Calls a second that the tool takes. */
  readonly rate: number;
  /** Calls a second that the processes divide now. */
  readonly granted: number;
  readonly periodS: number;
  /** Calls that processes asked for in the seconds before `until`. */
  readonly asked: number;
  readonly until: number;
  /** Until when the tool asked to wait. Null: it takes calls. */
  readonly pausedUntil: number | null;
}

export interface CircuitView {
  readonly circuitId: string;
  /** Name of the tool. Of a family's circuit: the family. */
  readonly tool: string;
  readonly scope: CircuitScope;
  readonly state: CircuitState;
  readonly version: number;
  readonly generation: number;
  /** The cause in words. */
  readonly reason: string;
  /** The rule or command that decided. */
  readonly causeRule: string | undefined;
  /** The reason that the cause itself names. */
  readonly causeReason: string | undefined;
  readonly openUntil: number | null;
  readonly leases: readonly LeaseView[];
  readonly permitsLeft: number;
  readonly lastError: string | null;
  /** Class of the last failure that counted. Null in records of older workers. */
  readonly lastErrorClass: string | null;
  readonly mode: Mode;
  readonly fallback: readonly string[];
  readonly admittedShare: number;
  /** What tells the targets of the tool apart, such as `url.host`. Null if nothing does. */
  readonly target: string | null;
  /** Calls that run longer are overdue. Null if the fleet knows no limit. */
  readonly overdueAfterMs: number | null;
  /** Calls a second that the tool takes. Null if no limit is known. */
  readonly admittedRate: number | null;
  /** Processes that called the tool within the last minute. Null if they aren't counted. */
  readonly activeProcesses: number | null;
  /** `off`, `learn` or `enforce`. Null if no limit is known. */
  readonly pace: string | null;
  /** The longest wait of a call for its turn. */
  readonly paceWaitS: number;
  readonly limits: readonly LimitView[];
  /** Processes keep the tool's limits. */
  readonly keepsPace: boolean;
  /** Permit every call, as far as the fleet decides. */
  readonly passes: boolean;
  /** Permit the admitted share of the calls. */
  readonly recovers: boolean;
  /** Permit every call, whatever the process's own breaker decides: an operator's `disabled` or `metrics_only`. */
  readonly overrides: boolean;
  /** Refuse every call, by an operator's command. */
  readonly forced: boolean;
}

const STATES: readonly string[] = ["closed", "open", "half_open", "forced_open", "disabled", "metrics_only"];
const SCOPES: readonly string[] = ["tool", "user", "session", "tenant", "target", "family"];
const PACES: readonly string[] = ["off", "learn", "enforce"];
const NOT_ENFORCED: readonly string[] = ["metrics_only", "disabled"];

/** Return a circuit from its record in JSON, or null if it isn't one. Unknown fields are skipped. */
export function readView(record: unknown): CircuitView | null {
  if (!isRecord(record)) {
    return null;
  }
  const { circuit_id: circuitId, tool_name: tool, state, version, generation } = record;
  const named = typeof circuitId === "string" && circuitId !== "" && typeof tool === "string" && tool !== "";
  const numbered = Number.isInteger(version) && Number.isInteger(generation);
  if (!named || !numbered || typeof state !== "string" || !STATES.includes(state)) {
    return null;
  }
  const scope = record["scope"] ?? "tool";
  const share = record["admitted_share"] ?? 1;
  if (!SCOPES.includes(scope as string) || typeof share !== "number" || !(share > 0 && share <= 1)) {
    return null;
  }
  const pace = paceIn(record);
  if (pace === null) {
    return null;
  }
  const cause = isRecord(record["cause"]) ? record["cause"] : null;
  const leases = Array.isArray(record["leases"]) ? record["leases"].filter(isRecord) : [];
  const fallback = Array.isArray(record["fallback"])
    ? record["fallback"].filter((each) => typeof each === "string")
    : [];
  return withDecision({
    circuitId,
    tool,
    scope: scope as CircuitScope,
    state: state as CircuitState,
    version: version as number,
    generation: generation as number,
    reason: cause === null ? "" : causeInWords(cause),
    causeRule: typeof cause?.["rule"] === "string" ? cause["rule"] : undefined,
    causeReason: typeof cause?.["reason"] === "string" ? cause["reason"] : undefined,
    openUntil: instant(record["open_until"]),
    leases: leases.map((lease) => ({
      emitterId: String(lease["emitter_id"]),
      expiresAt: instant(lease["expires_at"]) ?? 0,
    })),
    permitsLeft: typeof record["permits_left"] === "number" ? record["permits_left"] : 0,
    lastError: typeof record["last_error"] === "string" ? record["last_error"] : null,
    lastErrorClass: typeof record["last_error_class"] === "string" ? record["last_error_class"] : null,
    mode: (record["mode"] ?? "enforce") as Mode,
    fallback,
    admittedShare: share,
    target: typeof record["target"] === "string" ? record["target"] : null,
    overdueAfterMs: typeof record["overdue_after_ms"] === "number" ? record["overdue_after_ms"] : null,
    ...pace,
  });
}

/** Return a circuit of `circuitId` that refuses, because its state is not known. */
export function denial(circuitId: string): CircuitView {
  const { name, scope } = readCircuitId(circuitId);
  return withDecision({
    circuitId,
    tool: name,
    scope: scope === "family" ? "family" : "tool",
    state: "open",
    version: 0,
    generation: 0,
    reason: "the fleet's state is unavailable",
    causeRule: undefined,
    causeReason: undefined,
    openUntil: null,
    leases: [],
    permitsLeft: 0,
    lastError: null,
    lastErrorClass: null,
    mode: "forced_open",
    fallback: [],
    admittedShare: 1,
    target: null,
    overdueAfterMs: null,
    ...NOT_PACED,
  });
}

/** Return the limit of the calls with a credential. */
export function limitOf({ limits }: CircuitView, credential: string): LimitView | null {
  return limits.find((each) => each.credential === credential) ?? limits.find((each) => each.credential === "") ?? null;
}

type Pace = Pick<CircuitView, "admittedRate" | "activeProcesses" | "pace" | "paceWaitS" | "limits">;
const NOT_PACED: Pace = { admittedRate: null, activeProcesses: null, pace: null, paceWaitS: 0, limits: [] };

/** Return what a record says of the pace of its tool. Null if it is impossible. */
function paceIn(record: Readonly<Record<string, unknown>>): Pace | null {
  const { admitted_rate: rate = null, active_processes: processes = null, pace = null } = record;
  const counted = processes === null || (Number.isInteger(processes) && (processes as number) >= 1);
  if (!counted || !(rate === null || Number.isFinite(rate))) {
    return null;
  }
  const known = { admittedRate: rate as number | null, activeProcesses: processes as number | null };
  if (pace === null) {
    return { ...NOT_PACED, ...known };
  }
  const { mode, wait_s: waitS = 0, limits = [] } = isRecord(pace) ? pace : {};
  const found = Array.isArray(limits) ? limits.map(limitIn) : [null];
  if (!PACES.includes(mode as string) || !isAtLeast0(waitS) || found.includes(null)) {
    return null;
  }
  return { ...known, pace: mode as string, paceWaitS: waitS, limits: found as LimitView[] };
}

function limitIn(limit: unknown): LimitView | null {
  const {
    credential = "",
    rate,
    granted,
    period_s: periodS,
    asked,
    until,
    paused_until: paused = null,
  } = isRecord(limit) ? limit : {};
  const at = instant(until);
  const pausedUntil = instant(paused);
  const possible =
    typeof credential === "string" &&
    [rate, granted, periodS].every((each) => isAtLeast0(each) && each > 0) &&
    isAtLeast0(asked) &&
    Number.isInteger(asked) &&
    (paused === null || pausedUntil !== null);
  return !possible || at === null
    ? null
    : ({ credential, rate, granted, periodS, asked, until: at, pausedUntil } as LimitView);
}

function isAtLeast0(value: unknown): value is number {
  return Number.isFinite(value) && (value as number) >= 0;
}

function withDecision(
  fields: Omit<CircuitView, "passes" | "recovers" | "overrides" | "forced" | "keepsPace">,
): CircuitView {
  const overrides = NOT_ENFORCED.includes(fields.mode) || NOT_ENFORCED.includes(fields.state);
  const forced = !overrides && (fields.mode === "forced_open" || fields.state === "forced_open");
  const closed = fields.state === "closed" && !forced;
  const passes = overrides || (closed && fields.admittedShare === 1);
  const keepsPace = fields.pace === "enforce" && !overrides;
  return { ...fields, keepsPace, passes, recovers: closed && !passes, overrides, forced };
}

function causeInWords(cause: Readonly<Record<string, unknown>>): string {
  const { rule, actor, reason, value, threshold, sample } = cause;
  if (typeof actor === "string" && actor !== "") {
    return `${String(rule)} by ${actor}${typeof reason === "string" && reason !== "" ? `: ${reason}` : ""}`;
  }
  if (typeof value !== "number") {
    return typeof reason === "string" && reason !== "" ? reason : String(rule);
  }
  const reached = typeof threshold === "number" ? ` reached ${shortNumber(threshold)}` : "";
  const over = typeof sample === "number" && sample !== 0 ? ` over ${sample} calls` : "";
  return `${String(rule)} ${shortNumber(value)}${reached}${over}`;
}

function instant(text: unknown): number | null {
  const found = typeof text === "string" ? Date.parse(text) / 1000 : NaN;
  return Number.isNaN(found) ? null : found;
}
