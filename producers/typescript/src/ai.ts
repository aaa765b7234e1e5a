/** Guards for the tools of the Vercel AI SDK. The types are structural: this module doesn't import the SDK. */
import type { Gear } from "./gear.js";
import type { AnyOptions } from "./guard/options.js";
import { renamer, type NameMap } from "./prompts/tool-name.js";
import { CircuitOpenError } from "./rejection.js";

type Execute = (input: never, options: never) => unknown;

export interface WrapOptions {
  /** The circuit's name for a tool's name. The default is the tool's name. */
  readonly circuitOf?: NameMap | undefined;
  /** The guards' options: one for all tools, or by the tool's name. */
  readonly options?: (AnyOptions | ((tool: string) => AnyOptions)) | undefined;
  /**
   * What a refused call does. `throw`: it throws, and the SDK shows the error's message to the model as a tool error. `text`: it
   * returns the text as the tool's result.
   */
  readonly refused?: "throw" | "text" | undefined;
}

/**
 * Return the tools with a circuit breaker around each `execute`. Tools without one stay as they are.
 *
 * @param gear A client or a session.
 * @param tools The `tools` of `generateText`, `streamText` or an agent.
 */
export function wrapTools<T extends Readonly<Record<string, object>>>(gear: Gear, tools: T, wrap: WrapOptions = {}): T {
  const circuitName = renamer(wrap.circuitOf);
  const wrapped = Object.entries(tools).map(([name, tool]) => {
    const { execute } = tool as { execute?: Execute };
    if (typeof execute !== "function") {
      return [name, tool] as const;
    }
    const given = typeof wrap.options === "function" ? wrap.options(name) : (wrap.options ?? {});
    const guarded = guardedExecute(gear, circuitName(name), execute, given, wrap.refused ?? "throw");
    return [
      name,
      Object.assign(Object.create(Object.getPrototypeOf(tool)) as object, tool, { execute: guarded }),
    ] as const;
  });
  return Object.fromEntries(wrapped) as T;
}

function guardedExecute(
  gear: Gear,
  circuit: string,
  execute: Execute,
  options: AnyOptions,
  refused: "throw" | "text",
): Execute {
  // The SDK looks at what `execute` returns at once: a generator streams preliminary results, anything else is awaited.
  if (Object.prototype.toString.call(execute) === "[object AsyncGeneratorFunction]") {
    const { fallback: _, adapt: __, timeoutS: ___, ...rest } = options;
    const stream = gear.guardStream(circuit, execute as (...args: unknown[]) => AsyncIterable<unknown>, rest);
    if (refused === "throw") {
      return stream as Execute;
    }
    return async function* (this: unknown, ...args: unknown[]) {
      try {
        yield* stream.apply(this, args);
      } catch (error) {
        yield textOf(error);
      }
    } as Execute;
  }
  const call = gear.guard(circuit, execute, options);
  if (refused === "throw") {
    return call as Execute;
  }
  return async function (this: unknown, ...args: [never, never]) {
    try {
      return await call.apply(this, args);
    } catch (error) {
      return textOf(error);
    }
  };
}

/** Return the text of a refusal. Throw every other error. */
function textOf(error: unknown): string {
  if (error instanceof CircuitOpenError) {
    return error.text;
  }
  throw error;
}
