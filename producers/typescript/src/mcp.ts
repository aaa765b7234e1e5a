/** A guard for clients of the Model Context Protocol. The types are structural: this module doesn't import the SDK. */
import { META_KEY, toolFailure } from "./classify/tool-failure.js";
import { SwitchgearError } from "./errors.js";
import type { Gear, GuardedFunction } from "./gear.js";
import type { CallerIds } from "./guard/caller.js";
import type { AnyOptions } from "./guard/options.js";
import { CircuitOpenError } from "./rejection.js";
import { mintId } from "./wire/ids.js";

/** What a client must have. `Client` of `@modelcontextprotocol/sdk` has it. */
export interface McpClient {
  callTool(params: { name: string }, ...rest: any[]): Promise<unknown>;
}

export interface GuardClientOptions {
  /** The server's name. The circuit of a tool is `mcp:<server>:<tool>`, of the family `mcp:<server>`. */
  readonly server: string;
  /** The guards' options: one for all tools, or by the tool's name. */
  readonly options?: (AnyOptions | ((tool: string) => AnyOptions)) | undefined;
  /** What a refused call does: it throws a CircuitOpenError, or it returns a result with `isError` and the text for the model. */
  readonly refused?: "throw" | "result" | undefined;
}

/** The most tools whose guard is kept. */
const MOST_TOOLS = 1_000;
/** The most characters of a circuit's name. */
const MOST_CHARACTERS = 256;

/**
 * Return the client with a circuit breaker around `callTool`. All else is the client's own.
 *
 * @param gear A client or a session of Switchgear.
 * @throws SwitchgearError The server has no name.
 */
export function guardClient<T extends McpClient>(gear: Gear, client: T, options: GuardClientOptions): T {
  const { server, refused = "throw" } = options;
  if (typeof server !== "string" || server === "" || server.includes(":")) {
    throw new SwitchgearError(`server is ${JSON.stringify(server)}.`, "Use a name without colons, such as github.");
  }
  let connection: string | undefined; // stands for what it signs in with: other connections are other people's, maybe
  const guards = new Map<string, GuardedFunction<T["callTool"]>>();
  const guardOf = (tool: string): GuardedFunction<T["callTool"]> => {
    let guarded = guards.get(tool);
    if (guarded === undefined) {
      const given = typeof options.options === "function" ? options.options(tool) : (options.options ?? {});
      const circuit = `mcp:${server}:${tool}`.slice(0, MOST_CHARACTERS); // a model may invent a name of any length
      const caller = (...args: unknown[]): CallerIds => ({
        credential: (connection ??= mintId()),
        ...given.caller?.(...args),
      });
      guarded = gear.guard(circuit, client.callTool.bind(client), { ...given, caller });
      if (guards.size >= MOST_TOOLS) {
        guards.clear();
      }
      guards.set(tool, guarded);
    }
    return guarded;
  };
  const callTool = async (...args: Parameters<T["callTool"]>): Promise<unknown> => {
    try {
      return await guardOf(args[0].name)(...args);
    } catch (error) {
      if (refused === "result" && error instanceof CircuitOpenError) {
        const failure = toolFailure(error.rejection, mintId(), Date.now() / 1000);
        return { content: [{ type: "text", text: error.text }], isError: true, _meta: { [META_KEY]: failure } };
      }
      throw error;
    }
  };
  return new Proxy(client, {
    get(target, key) {
      if (key === "callTool") {
        return callTool;
      }
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === "function" ? value.bind(target) : value; // a client's private fields need their own `this`
    },
    set: (target, key, value) => Reflect.set(target, key, value, target),
  });
}
