import type { Rejection } from "./rejection.js";
import { availableIn, type ToolList } from "./prompts/available.js";
import { REFUSES, type Condition } from "./tool-list.js";
import { withCircuit, type NameMap } from "./prompts/tool-name.js";
import { acquire, run, runStream, type CallContext } from "./guard/calls.js";
import { callerOf, type CallerIds } from "./guard/caller.js";
import { checkGuard, checkTool, type AnyFunction, type GuardOptions, type Guarded } from "./guard/options.js";
import type { Permit } from "./guard/permit.js";

/** A function with the same arguments whose result is a promise. */
export type GuardedFunction<F extends AnyFunction> = (...args: Parameters<F>) => Promise<Awaited<ReturnType<F>>>;

/** What a client and its sessions have in common: guarded calls. */
export abstract class Gear {
  protected abstract readonly context: CallContext;
  /** The functions by tool that may stand in for others. */
  protected abstract readonly standIns: Map<string, Guarded | null>;

  /**
   * Return the function with a circuit breaker around it.
   *
   * A refused call rejects with a CircuitOpenError, whose message is for the model, or goes to a fallback. Nothing else changes.
   *
   * @param tool The circuit's name, such as `mcp:github:search`.
   * @throws SwitchgearError An option is impossible.
   */
  guard<F extends AnyFunction>(
    tool: string,
    fn: F,
    options: GuardOptions<Parameters<F>, ReturnType<F>> = {},
  ): GuardedFunction<F> {
    checkGuard(tool, options);
    const guarded: Guarded = { fn, options };
    this.#standIn(tool, guarded);
    const { context } = this;
    const call: GuardedFunction<F> = function (this: unknown, ...args) {
      return run(context, tool, guarded, args, this) as Promise<Awaited<ReturnType<F>>>;
    };
    return withCircuit(call, tool);
  }

  /**
   * Return an async generator function with a circuit breaker around it. Its outcome is recorded when the stream ends, or when the
   * caller stops reading. It has no fallback and no time limit.
   */
  guardStream<A extends unknown[], T>(
    tool: string,
    fn: (...args: A) => AsyncIterable<T>,
    options: Omit<GuardOptions<A, AsyncIterable<T>>, "fallback" | "adapt" | "timeoutS"> = {},
  ): (...args: A) => AsyncGenerator<T, void, unknown> {
    checkGuard(tool, options);
    const { context } = this;
    const stream = function (this: unknown, ...args: A): AsyncGenerator<T, void, unknown> {
      return runStream(context, tool, { fn, options }, args, this) as AsyncGenerator<T, void, unknown>;
    };
    return withCircuit(stream, tool);
  }

  /** Make one guarded call. */
  async call<R>(tool: string, fn: () => R, options: GuardOptions<[], R> & CallerIds = {}): Promise<Awaited<R>> {
    checkGuard(tool, options);
    const { userId, sessionId, requestId, credential, ...rest } = options;
    const ids: CallerIds = { userId, sessionId, requestId, credential };
    return run(this.context, tool, { fn, options: { caller: () => ids, ...rest } }, []) as Promise<Awaited<R>>;
  }

  /**
   * Ask for permission to make a call that you make and report yourself.
   *
   * @returns A Permit, whose `allowed` is true, or a Rejection, whose `allowed` is false.
   */
  async tryAcquire(tool: string, ids: CallerIds = {}): Promise<Permit | Rejection> {
    checkTool(tool);
    const answer = await acquire(this.context, tool, ids);
    if (!answer.allowed && answer.source !== "session") {
      this.context.reporter.fleet?.refusals.refused(answer, callerOf(ids, this.context.ids));
    }
    return answer;
  }

  /**
   * Ask for permission as `tryAcquire` does.
   *
   * @throws CircuitOpenError The call is refused.
   */
  async permit(tool: string, ids: CallerIds = {}): Promise<Permit> {
    const answer = await this.tryAcquire(tool, ids);
    if (!answer.allowed) {
      throw answer.error();
    }
    return answer;
  }

  /** Return whether a call would be refused now. It takes nothing and asks no gateway. */
  isOpen(tool: string, ids: CallerIds = {}): boolean {
    this.context.start();
    return (
      this.context.limits?.exhausted != null || this.context.decision.isOpen(tool, callerOf(ids, this.context.ids))
    );
  }

  /**
   * Return the tools to offer to the model, unchanged and in order, by the client's `toolList`. By default that are all of them;
   * `isOpen` says whether a call would be refused. Tools that the model's provider runs usually have no circuit and stay. If no tool is
   * left, leave the parameter out of the request: OpenAI's API rejects an empty list.
   *
   * @param tools A list of names or tools, or an object of tools by name as in the AI SDK.
   * @param options `circuitOf`: the circuit's name for a name in the list. `sessionId`: the conversation, for `new_sessions`.
   * @throws SwitchgearError An item has no name.
   */
  available<T extends ToolList>(tools: T, options: { readonly circuitOf?: NameMap } & CallerIds = {}): T {
    const { decision, ids, limits, lists, process, start } = this.context;
    start();
    const caller = callerOf(options, ids);
    const own = limits !== null;
    const session = { name: caller.sessionId, own, user: own ? "" : caller.userId };
    const condition = (tool: string, ofSession: boolean): Condition => {
      if (!ofSession) {
        return process.condition(tool, callerOf(own ? {} : options));
      }
      return limits?.exhausted == null ? decision.condition(tool, caller) : REFUSES;
    };
    // The gateway grants a probe with the call, so there is nothing to ask for ahead of it.
    return availableIn(tools, (circuits) => lists.offered(circuits, session, condition, () => true), options.circuitOf);
  }

  #standIn(tool: string, guarded: Guarded): void {
    const known = this.standIns.get(tool);
    const differs = known === null || (known !== undefined && known.fn !== guarded.fn);
    this.standIns.set(tool, differs ? null : guarded);
  }
}
