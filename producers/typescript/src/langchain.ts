/** Guards for the tools of LangChain.js and LangGraph.js. This module alone imports a framework: `@langchain/core`, for its messages. */
import { AIMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { toolFailure } from "./classify/tool-failure.js";
import { IGNORE } from "./classify/classification.js";
import type { Gear } from "./gear.js";
import type { AnyOptions } from "./guard/options.js";
import { endOfRun, namesByCircuit, Told } from "./prompts/run-notice.js";
import { circuitIn, renamer, withCircuit, type NameMap } from "./prompts/tool-name.js";
import { CircuitOpenError } from "./rejection.js";
import type { Session, Switchgear } from "./switchgear.js";
import { mintId } from "./wire/ids.js";

/** A tool that LangChain runs. The tools of `@langchain/core` are such tools. */
export interface RunnableTool {
  readonly name: string;
  invoke(input: any, config?: any): Promise<any>;
}

export interface WrapOptions {
  /** The circuit's name for a tool's name. The default is the tool's name. Use it for MCP tools: they share the circuit of their server. */
  readonly circuitOf?: NameMap | undefined;
  /** The guards' options: one for all tools, or by the tool's name. */
  readonly options?: (AnyOptions | ((tool: string) => AnyOptions)) | undefined;
}

/**
 * Return the tools with a circuit breaker around each `invoke`. What is no runnable tool stays as it is.
 *
 * A refused call of a model becomes a `ToolMessage` with the status `error`, whose text is for the model and whose `artifact` says the same
 * as data. A refused call of your own throws a CircuitOpenError. Attempts that a framework repeats count once.
 *
 * @param gear A client or a session.
 * @param tools The `tools` of a `ToolNode`, of `createReactAgent` or of `createAgent`.
 */
export function wrapTools<T extends readonly unknown[]>(gear: Gear, tools: T, wrap: WrapOptions = {}): T {
  return tools.map((tool) =>
    isRunnable(tool) && circuitIn(tool) === null ? wrapped(gear, tool, wrap) : tool,
  ) as unknown as T;
}

export interface MiddlewareOptions {
  /** The circuit's name for a tool's name. Tools of `wrapTools` know theirs. */
  readonly circuitOf?: NameMap | undefined;
  /** End the run after this many refused calls, because models ignore texts. By default it goes on. */
  readonly terminalAfter?: number | undefined;
}

/** What this module needs of a request to the model. */
interface ModelRequest {
  readonly messages: readonly object[];
  readonly tools: readonly unknown[];
}

/**
 * Return a middleware for `createAgent` of `langchain`, beside `wrapTools`. Each request to the model offers the tools that the client's
 * `toolList` decides. A message in the conversation says which tools are down, once, and once that they may be called again.
 */
export function switchgearMiddleware(
  gear: Switchgear | Session,
  options: MiddlewareOptions = {},
): { readonly name: string; wrapModelCall(request: any, handler: (request: any) => any): Promise<any> } {
  const { circuitOf, terminalAfter = Infinity } = options;
  const told = new Told<object>(
    (sessionId, nameOf) => gear.outageMessage({ sessionId, nameOf, only: Object.keys(nameOf) }),
    (text) => new HumanMessage(text),
  );
  return {
    name: "Switchgear",
    async wrapModelCall(request: ModelRequest, handler) {
      const refused = refusalsSince(request.messages);
      if (refused.length >= terminalAfter) {
        return new AIMessage(endOfRun(refused.at(-1)!.text));
      }
      const tools = gear.available(request.tools, circuitOf === undefined ? {} : { circuitOf });
      const names = namesByCircuit(
        request.tools.map((tool) => [null, tool]),
        circuitOf,
      );
      return handler({ ...request, tools, messages: told.in(request.messages, names) });
    },
  };
}

function isRunnable(tool: unknown): tool is RunnableTool {
  const { name, invoke } = (tool ?? {}) as { name?: unknown; invoke?: unknown };
  return typeof name === "string" && typeof invoke === "function";
}

function wrapped(gear: Gear, tool: RunnableTool, wrap: WrapOptions): RunnableTool {
  const given = typeof wrap.options === "function" ? wrap.options(tool.name) : (wrap.options ?? {});
  const circuit = renamer(wrap.circuitOf)(tool.name);
  const attempts = new FailedAttempts();
  const call = gear.guard(
    circuit,
    (input: unknown, config: unknown) => attempts.made(input, () => tool.invoke(input, config)),
    {
      ...given,
      classify: (error) => {
        if (attempts.isRepeated(error)) {
          return IGNORE;
        }
        return given.classify?.(error) ?? (isBadInput(error) ? "invalid_input" : null);
      },
    },
  );
  const invoke = async (input: unknown, config?: unknown): Promise<unknown> => {
    try {
      return await call(input, config);
    } catch (error) {
      if (error instanceof CircuitOpenError && isToolCall(input)) {
        return refusal(error, input);
      }
      throw error;
    }
  };
  const copy = Object.assign(Object.create(Object.getPrototypeOf(tool)) as RunnableTool, tool, { invoke });
  return withCircuit(copy, circuit);
}

/** The failed attempts of calls: a framework that repeats a call gives the very same arguments again. */
class FailedAttempts {
  readonly #calls = new WeakSet<object>();
  readonly #repeated = new WeakSet<object>();

  async made(input: unknown, act: () => Promise<unknown>): Promise<unknown> {
    try {
      return await act();
    } catch (error) {
      const args: unknown = isToolCall(input) ? input.args : null;
      if (typeof args === "object" && args !== null && typeof error === "object" && error !== null) {
        (this.#calls.has(args) ? this.#repeated : this.#calls).add(this.#calls.has(args) ? error : args);
      }
      throw error;
    }
  }

  isRepeated(error: unknown): boolean {
    return typeof error === "object" && error !== null && this.#repeated.has(error);
  }
}

interface ToolCall {
  readonly type: "tool_call";
  readonly name: string;
  readonly args: unknown;
  readonly id?: string;
}

function isToolCall(input: unknown): input is ToolCall {
  return typeof input === "object" && input !== null && (input as { type?: unknown }).type === "tool_call";
}

/** The error of arguments that don't match the tool's schema has no name of its own. */
function isBadInput(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith("Received tool input did not match expected schema");
}

function refusal(error: CircuitOpenError, { name, id = "" }: ToolCall): ToolMessage {
  const artifact = toolFailure(error.rejection, mintId(), Date.now() / 1000);
  return new ToolMessage({ status: "error", content: error.text, tool_call_id: id, name, artifact });
}

/** Return the refused calls of this run: those after the last message of a person. */
function refusalsSince(messages: readonly unknown[]): ToolMessage[] {
  const begin = messages.map((each) => (each as { type?: unknown }).type).lastIndexOf("human");
  return messages.slice(begin + 1).filter((each): each is ToolMessage => {
    const { type, artifact } = each as { type?: unknown; artifact?: { agentGuidance?: unknown } };
    return type === "tool" && typeof artifact?.agentGuidance === "string";
  });
}
