import { SwitchgearError } from "../errors.js";
import type { Classifier, ResultClassifier } from "../classify/classification.js";
import { checkedChain } from "./fallback.js";
import type { CallerIds } from "./caller.js";
import type { Usage } from "./session-limits.js";

// Types of functions with any arguments: `never` accepts none, and `unknown` no function that names a type.
export type AnyFunction = (...args: any[]) => any;

/** The options of a guard. */
export interface GuardOptions<A extends readonly unknown[] = readonly never[], R = unknown> {
  /** What to call if the circuit refuses: a tool guarded by the same client, several in order, or a function. */
  readonly fallback?: string | readonly string[] | ((...args: A) => Awaited<R> | Promise<Awaited<R>>) | undefined;
  /** Makes the arguments of the fallback from those of the call. `target` is the fallback tool's name; empty for a function. */
  readonly adapt?: ((target: string, ...args: A) => readonly unknown[]) | undefined;
  /** The longest duration in seconds. Then the call rejects with a CallTimeoutError and counts as `timeout`. The function goes on. */
  readonly timeoutS?: number | undefined;
  /** A rule for this tool's errors. Null leaves an error to the client's rule. */
  readonly classify?: Classifier | undefined;
  /** A rule for results that are failures. The default reads MCP's `isError`. The caller gets the result all the same. */
  readonly classifyResult?: ResultClassifier | undefined;
  /** Returns what the call cost, from its result. It also gets the error of a failed call; what it throws then is ignored. */
  readonly usage?: ((result: Awaited<R>) => Usage) | undefined;
  /** Returns user, session, request and credential of a call from its arguments. */
  readonly caller?: ((...args: A) => CallerIds) | undefined;
}

/** A guard's options, whatever its function. */
export type AnyOptions = GuardOptions<any, any>;

/** A guarded function with its options. */
export interface Guarded {
  readonly fn: AnyFunction;
  readonly options: AnyOptions;
}

/** @throws SwitchgearError An option or the name is impossible. */
export function checkGuard(tool: string, options: AnyOptions): void {
  checkTool(tool);
  const { fallback, timeoutS } = options;
  if (fallback !== undefined && typeof fallback !== "function") {
    checkedChain(tool, fallback);
  }
  if (timeoutS !== undefined && !(timeoutS >= 0.001 && timeoutS <= 2_147_483)) {
    throw new SwitchgearError(`timeoutS is ${String(timeoutS)}.`, "Use a number of seconds from 0.001 to 2147483.");
  }
}

/** @throws SwitchgearError The name is impossible. */
export function checkTool(tool: string): void {
  if (typeof tool !== "string" || tool === "" || tool.length > 256) {
    throw new SwitchgearError(
      `The tool's name is ${JSON.stringify(tool)}.`,
      "Use 1 to 256 characters, such as mcp:github:search.",
    );
  }
}
