import { checkedClass, type Classification } from "../classify/classification.js";
import { classifyResult, resultText, type TextRule } from "../classify/result.js";
import { isRecord } from "../classify/tool-failure.js";
import { MOST } from "../emitter/execution.js";
import { CallTimeoutError } from "../errors.js";
import type { ToolLists } from "../tool-list.js";
import { Rejection } from "../rejection.js";
import type { Warnings } from "../wire/warnings.js";
import { callerOf, type Caller, type CallerIds } from "./caller.js";
import type { Decision } from "./decision.js";
import { candidates, type FallbackMap } from "./fallback.js";
import type { AnyOptions, Guarded } from "./options.js";
import type { CallValues, Permit, Reporter } from "./permit.js";
import type { SessionLimits, Usage } from "./session-limits.js";

const USAGE: readonly (keyof Usage)[] = ["inputTokens", "outputTokens", "cacheCreationTokens", "costUsd"];

/** What the calls of a client, or of one of its sessions, share. */
export interface CallContext {
  readonly decision: Decision;
  readonly reporter: Reporter;
  readonly fallbacks: FallbackMap;
  /** The functions by tool that may stand in. Null: different functions are guarded under that name. */
  readonly standIns: ReadonlyMap<string, Guarded | null>;
  readonly warnings: Warnings;
  /** The rule for the texts of a tool's failed results, by the client's `outagesInText`. */
  readonly textRule: (tool: string) => TextRule;
  readonly limits: SessionLimits | null;
  /** The decision about calls outside of sessions. */
  readonly process: Decision;
  /** The lists of tools that models are offered. */
  readonly lists: ToolLists;
  /** User and session of the calls of a session. */
  readonly ids: CallerIds;
  /** Starts the client, and waits for the fleet's circuits as long as its `startWaitS` says. */
  readonly start: () => Promise<unknown> | null;
}

/** Ask for a permit: the session's limits, then the circuits. */
export async function acquire(
  context: CallContext,
  tool: string,
  ids: CallerIds,
  args: readonly unknown[] = [],
): Promise<Permit | Rejection> {
  const starting = context.start();
  if (starting !== null) {
    await starting;
  }
  const caller = callerIn(context, ids);
  const refusal = context.limits?.refusal(tool);
  if (refusal) {
    context.reporter.fleet?.refusals.refused(refusal, caller);
    return refusal;
  }
  const answer = await context.decision.acquire(tool, caller, args);
  if (answer.allowed) {
    count(context, answer);
  }
  return answer;
}

/** Make a guarded call. */
export async function run(
  context: CallContext,
  tool: string,
  guarded: Guarded,
  args: readonly unknown[],
  self?: unknown,
): Promise<unknown> {
  const ids = idsOf(context, guarded.options, args);
  const answer = await acquire(context, tool, ids, args);
  if (answer.allowed) {
    return execute(context, answer, guarded, args, self);
  }
  return fallBack(context, guarded, answer, callerIn(context, ids), args, self);
}

/** Make a guarded call of an async generator. Its outcome is recorded when it ends, or when the caller stops reading. */
export async function* runStream(
  context: CallContext,
  tool: string,
  guarded: Guarded,
  args: readonly unknown[],
  self?: unknown,
): AsyncGenerator<unknown, unknown, unknown> {
  const ids = idsOf(context, guarded.options, args);
  const permit = await acquire(context, tool, ids, args);
  if (!permit.allowed) {
    if (permit.source !== "session") {
      context.reporter.fleet?.refusals.refused(permit, callerIn(context, ids));
    }
    throw permit.error();
  }
  let last: unknown;
  let ended = false;
  try {
    for await (const item of guarded.fn.apply(self, [...args]) as AsyncIterable<unknown>) {
      last = item;
      permit.rest();
      yield item;
      permit.resume();
    }
    ended = true;
    reportResult(context, permit, guarded.options, last);
  } catch (error) {
    ended = true;
    permit.failure(error, classOf(context, guarded.options, error), usedBy(guarded.options, error));
    throw error;
  } finally {
    if (!ended) {
      permit.success(); // the caller has what it wanted: the tool answered
    }
  }
  return undefined;
}

async function execute(
  context: CallContext,
  permit: Permit,
  guarded: Guarded,
  args: readonly unknown[],
  self: unknown,
): Promise<unknown> {
  const { fn, options } = guarded;
  const act = (): unknown => fn.apply(self, [...args]);
  let result: unknown;
  try {
    result = await (options.timeoutS === undefined ? act() : limited(permit.tool, options.timeoutS, act));
  } catch (error) {
    permit.failure(error, classOf(context, options, error), usedBy(options, error));
    throw error;
  }
  reportResult(context, permit, options, result);
  return result;
}

function reportResult(context: CallContext, permit: Permit, options: AnyOptions, result: unknown): void {
  const { usage, classifyResult: rule } = options;
  const values: CallValues =
    usage === undefined
      ? {}
      : (context.warnings.attempt("usage could not be read from a result", () => usage(result as never)) ?? {});
  const failure = context.warnings.attempt("classifyResult failed; the result counts as a success", () =>
    rule === undefined ? classifyResult(result, context.textRule(permit.tool)) : checkedClass(rule(result)),
  );
  try {
    if (failure === null) {
      permit.success(values);
    } else if (failure.errorClass === "policy") {
      permit.ignore(undefined, values);
    } else {
      permit.failure(
        (isRecord(result) && resultText(result)) || "the result says that the tool failed",
        failure,
        values,
      );
    }
  } catch (error) {
    context.warnings.warn("the outcome of a call could not be reported as it is", error); // an impossible usage
    permit.success();
  }
}

/**
 * Return what a failed call says in its error that it cost. Many functions for `usage` know results alone, so one that fails,
 * or that returns what can't be a usage, says nothing.
 */
function usedBy(options: AnyOptions, error: unknown): CallValues {
  try {
    const found: unknown = options.usage?.(error as never);
    if (found instanceof Promise) {
      found.catch(() => {}); // nobody else would handle its rejection
    }
    const given = isRecord(found)
      ? USAGE.map((name) => [name, found[name]]).filter(([, value]) => value !== undefined)
      : [];
    return given.every(([name, value]) => typeof value === "number" && value >= 0 && value <= MOST[name as string]!)
      ? (Object.fromEntries(given) as Usage)
      : {};
  } catch {
    return {};
  }
}

/** Let something else serve the caller. A refusal that stands may name a tool to use instead. */
async function fallBack(
  context: CallContext,
  guarded: Guarded,
  refusal: Rejection,
  caller: Caller,
  args: readonly unknown[],
  self: unknown,
): Promise<unknown> {
  const { fallback, adapt } = guarded.options;
  const { refusals } = context.reporter.fleet ?? {};
  if (refusal.source === "session") {
    throw refusal.error(); // it was reported, and holds for all tools
  }
  if (refusal.source === "credential") {
    refusals?.refused(refusal, caller);
    throw refusal.error(); // the caller has to sign in; nothing else serves it
  }
  if (typeof fallback === "function") {
    refusals?.refused(refusal, caller, fallback.name || "fallback");
    return fallback.apply(self, [...(adapt?.("", ...(args as never[])) ?? args)]);
  }
  const own = fallback === undefined ? [] : typeof fallback === "string" ? [fallback] : fallback;
  let named: string | null = null;
  const chain = context.fallbacks.chain(refusal.tool, own);
  const isOpen = (tool: string): boolean => tool === refusal.tool || context.decision.isOpen(tool, caller);
  for (const name of chain.length === 0 ? [] : candidates([refusal.tool, ...chain], isOpen)) {
    if (name === refusal.tool) {
      if (refusal.state === "forced_open" || refusal.source === "pace") {
        break;
      }
      const permit = context.decision.unguarded(name, caller, args); // every circuit is open: a call is no worse than none
      count(context, permit);
      return execute(context, permit, guarded, args, self);
    }
    const standIn = context.standIns.get(name);
    if (!standIn) {
      if (standIn === null) {
        context.warnings.warn(
          `${name} can't stand in for ${refusal.tool}: different functions are guarded under that name`,
        );
      }
      named ??= name;
      continue;
    }
    const adapted = adapt?.(name, ...(args as never[])) ?? args;
    const permit = await context.decision.acquire(name, caller, adapted);
    if (permit.allowed) {
      count(context, permit);
      permit.isFallback = true;
      refusals?.refused(refusal, caller, name);
      return execute(context, permit, standIn, adapted, self);
    }
  }
  refusals?.refused(refusal, caller);
  throw (named === null ? refusal : refusal.withFallback(named)).error();
}

function count(context: CallContext, permit: Permit): void {
  permit.session = context.limits;
  context.limits?.begin();
}

function classOf(context: CallContext, options: AnyOptions, error: unknown): Classification | null {
  const rule = options.classify;
  return rule === undefined
    ? null
    : context.warnings.attempt("classify of a guard failed; the client's rule decides", () =>
        checkedClass(rule(error)),
      );
}

function idsOf(context: CallContext, options: AnyOptions, args: readonly unknown[]): CallerIds {
  const { caller } = options;
  return caller === undefined
    ? {}
    : (context.warnings.attempt("caller of a guard failed", () => caller(...(args as never[]))) ?? {});
}

function callerIn(context: CallContext, ids: CallerIds): Caller {
  return callerOf(ids, context.ids);
}

/** Wait for a call for a limited time. */
function limited(tool: string, seconds: number, act: () => unknown): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new CallTimeoutError(tool, seconds)), seconds * 1000);
    Promise.resolve()
      .then(act)
      .then(resolve, reject)
      .finally(() => clearTimeout(timer));
  });
}
