/**
 * How the calls of a scenario end: with a result, or as calls of real servers and libraries fail. `tests/acceptance/endings.py` describes
 * the outcomes.
 */
import assert from "node:assert/strict";
import { ERROR_CLASSES, type ErrorClass } from "../../src/breaker/policy.js";
import type { Permit } from "../../src/index.js";

export type Outcome = string | Readonly<Record<string, unknown>>;

const KEYS = ["class", "status", "headers", "answer", "meta", "structured", "cancelled", "after_s"];

/** The failure of a call. Its message is its class. */
export class ScenarioError extends Error {}

/** What HTTP clients throw: it has a status and headers. */
class HttpError extends Error {
  constructor(
    readonly status: number,
    readonly headers: Readonly<Record<string, string>>,
  ) {
    super(`the server answered ${status}`);
  }
}

/** Return whether a call ended as its scenario says. */
export function isFailure(error: unknown): boolean {
  return (
    error instanceof ScenarioError ||
    error instanceof HttpError ||
    (error instanceof DOMException && error.name === "AbortError")
  );
}

/** Be a tool: return what its call returns, or throw what it throws, after the time that it takes. */
export function end(outcome: Outcome, passTime: (seconds: number) => void): unknown {
  const given = typeof outcome === "string" ? { class: outcome } : outcome;
  for (const key of Object.keys(given)) {
    assert.ok(KEYS.includes(key), `the adapter does not know ${key} of an outcome`);
  }
  const { status, headers, answer, meta, structured, cancelled, after_s: afterS } = given as Record<string, unknown>;
  if (afterS !== undefined) {
    passTime(afterS as number);
  }
  if (status !== undefined) {
    throw new HttpError(status as number, (headers ?? {}) as Record<string, string>);
  }
  if (cancelled === true) {
    throw new DOMException("This operation was aborted", "AbortError");
  }
  if (answer !== undefined) {
    return { content: [{ type: "text", text: answer }], isError: true, _meta: meta, structuredContent: structured };
  }
  const errorClass = given["class"] as string;
  if (errorClass !== "success") {
    assert.ok(ERROR_CLASSES.includes(errorClass as ErrorClass), `the adapter does not know the outcome ${errorClass}`);
    throw new ScenarioError(errorClass);
  }
  return "found";
}

/** End a call that was made with a permit. */
export function report(permit: Permit, outcome: Outcome, passTime: (seconds: number) => void): void {
  let result: unknown;
  try {
    result = end(outcome, passTime);
  } catch (error) {
    if (!isFailure(error)) {
      throw error;
    }
    permit.failure(error);
    return;
  }
  assert.equal(result, "found", "a permit does not look at results; use `calls`");
  permit.success();
}

/** Return the class of a failure that names it. Null leaves others to Switchgear. */
export function classOf(error: unknown): ErrorClass | null {
  return error instanceof ScenarioError ? (error.message as ErrorClass) : null;
}
