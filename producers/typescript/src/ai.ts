/** Guards for the tools of the Vercel AI SDK. The types are structural: this module doesn't import the SDK. */
import type { Gear } from "./gear.js";
import type { AnyOptions } from "./guard/options.js";
import { namesByCircuit, Told } from "./prompts/run-notice.js";
import { circuitIn, renamer, withCircuit, type NameMap } from "./prompts/tool-name.js";
import { CircuitOpenError } from "./rejection.js";
import type { Session, Switchgear } from "./switchgear.js";

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
 * Return the tools with a circuit breaker around each `execute`. Tools without one stay as they are, and so do those whose `execute` is
 * guarded already.
 *
 * @param gear A client or a session.
 * @param tools The `tools` of `generateText`, `streamText` or an agent.
 */
export function wrapTools<T extends Readonly<Record<string, object>>>(gear: Gear, tools: T, wrap: WrapOptions = {}): T {
  const circuitName = renamer(wrap.circuitOf);
  const wrapped = Object.entries(tools).map(([name, tool]) => {
    const { execute } = tool as { execute?: Execute };
    if (typeof execute !== "function" || circuitIn(tool) !== null) {
      return [name, tool] as const;
    }
    const given = typeof wrap.options === "function" ? wrap.options(name) : (wrap.options ?? {});
    const circuit = circuitName(name);
    const guarded = guardedExecute(gear, circuit, execute, given, wrap.refused ?? "throw");
    return [
      name,
      Object.assign(Object.create(Object.getPrototypeOf(tool)) as object, tool, {
        execute: withCircuit(guarded, circuit),
      }),
    ] as const;
  });
  return Object.fromEntries(wrapped) as T;
}

export interface StepOptions {
  /** The circuit's name for a tool's name. Tools of `wrapTools` know theirs. */
  readonly circuitOf?: NameMap | undefined;
}

/** A message of the SDK, with a text of a user. */
interface Message {
  readonly role: "user";
  readonly content: string;
}

/**
 * Return the `prepareStep` of `generateText`, `streamText` or an agent. Each step offers the tools that the client's `toolList` decides. A
 * message in the conversation says which tools are down, once, and once that they may be called again.
 */
export function prepareStep<T extends Readonly<Record<string, object>>>(
  gear: Switchgear | Session,
  tools: T,
  options: StepOptions = {},
): <M extends object>(step: {
  readonly messages: readonly M[];
}) => { activeTools: (keyof T & string)[]; messages: (M | Message)[] } {
  const { circuitOf } = options;
  const names = namesByCircuit(Object.entries(tools), circuitOf);
  const say = (sessionId: string): string => gear.outageMessage({ sessionId, nameOf: names, only: Object.keys(names) });
  const told = new Told<object>(say, (content): Message => ({ role: "user", content }));
  return <M extends object>(step: { readonly messages: readonly M[] }) => ({
    activeTools: Object.keys(gear.available(tools, circuitOf === undefined ? {} : { circuitOf })),
    messages: [...told.in(step.messages, names)] as (M | Message)[],
  });
}

/**
 * Return a condition for `stopWhen`: the run ends after this many refused calls, because models ignore texts. The SDK itself refuses calls of
 * tools that `prepareStep` leaves out; they count too.
 */
export function refusedCalls(
  count: number,
): (run: { readonly steps: readonly { readonly content: readonly object[] }[] }) => boolean {
  return ({ steps }) => {
    const refused = steps.flatMap(({ content }) => content).filter(isRefused);
    return refused.length >= count;
  };
}

function isRefused(part: object): boolean {
  const { type, error } = part as { type?: unknown; error?: unknown };
  const notOffered = type === "tool-call" && (error as { name?: unknown } | undefined)?.name === "AI_NoSuchToolError";
  return notOffered || (type === "tool-error" && error instanceof CircuitOpenError);
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
