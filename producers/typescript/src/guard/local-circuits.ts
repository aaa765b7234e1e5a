import { Breaker } from "../breaker/breaker.js";
import { LOCAL_DEFAULT, policyOf, type Policy, type PolicyInput } from "../breaker/policy.js";
import {
  circuitIdOf,
  type Cause,
  type CircuitState,
  type Result,
  type BreakerPermit,
  type Transition,
} from "../breaker/values.js";
import { circuitId as idOf, readCircuitId } from "../circuit-ids.js";
import type { CircuitScope } from "../rejection.js";
import { redact } from "../text/redact.js";
import type { Warnings } from "../wire/warnings.js";

/**
 * One policy for all tools, or by tool name (the rest have the default), or a function. In a policy, rules that you don't name are off. An
 * empty one, `{}`, is the default.
 */
export type LocalPolicies =
  PolicyInput | { readonly tools: Readonly<Record<string, PolicyInput>> } | ((tool: string) => PolicyInput);

const MAX_TOOLS = 10_000;
const MAX_CIRCUITS_PER_TOOL = 1_000;
/** Circuits to look at for retirement when a new name comes, so that a look-up stays fast. */
const LOOKED_AT = 8;

/** A circuit of this process. */
export class LocalCircuit {
  /** Message of the last failure that counted, with its secrets. */
  #lastError: string | null = null;
  #lastErrorClass: string | null = null;
  readonly scope: CircuitScope;
  /** What the calls that it counts are about. Empty unless the tool's policy keeps targets apart. */
  readonly target: string;
  #words: { cause: Cause | null; error: string | null; reason: string; shown: string | null } | null = null;

  constructor(
    readonly breaker: Breaker,
    /** Whose circuit it is; null for the circuit of a tool. */
    readonly family: string | null = null,
    /** Whether the texts of its refusals quote the error. */
    readonly includeLastError = false,
  ) {
    const { scope, whose } = readCircuitId(breaker.circuitId);
    this.scope = scope;
    this.target = scope === "target" ? whose : "";
  }

  /** Record how a call ended. `error` and its class are kept if it counts as a failure. */
  record(
    now: number,
    result: Result,
    permit: BreakerPermit | null,
    error: string | null,
    errorClass: string | null = null,
  ): void {
    this.breaker.record(now, result, permit);
    if (result.kind === "failure") {
      this.#lastError = error;
      this.#lastErrorClass = errorClass;
    }
  }

  /** Return the reason for the state, and the last error without secrets. They are made once, not per refusal. */
  words(): { reason: string; lastError: string | null; lastErrorClass: string | null } {
    const { cause } = this.breaker;
    const error = this.#lastError;
    if (this.#words === null || this.#words.cause !== cause || this.#words.error !== error) {
      const reason = cause === null ? "" : (cause.reason ?? cause.rule);
      this.#words = { cause, error, reason, shown: error === null ? null : redact(error) };
    }
    return { reason: this.#words.reason, lastError: this.#words.shown, lastErrorClass: this.#lastErrorClass };
  }
}

interface ToolCircuits {
  readonly policy: Policy;
  /** By circuit id. Those that were looked at longest ago come first. */
  readonly circuits: Map<string, LocalCircuit>;
}

/**
 * The process's circuits by tool, user, session or target, made when they are first needed.
 *
 * Invented names can't make it forget a failing tool. Beyond the limits one more user or target shares its tool's circuit, and the
 * calls of one more tool pass uncounted. Idle circuits make room. Open, half-open, commanded and counting circuits never do.
 */
export class LocalCircuits {
  /** Called with a tool before its first circuit is made. */
  onNewTool: ((tool: string) => void) | null = null;
  /** Called with every change of a circuit made from here on. */
  onMove: ((moved: Transition) => void) | null = null;
  readonly #tools = new Map<string, ToolCircuits>();
  readonly #policyOf: (tool: string) => Policy;
  readonly #uncounted = new LocalCircuit(new Breaker("", policyOf({ mode: "disabled" }), 0));

  /** @throws SwitchgearError A policy is impossible. */
  constructor(
    policies: LocalPolicies | undefined,
    private readonly now: () => number,
    warnings: Warnings,
    private readonly limit: number = MAX_TOOLS,
    private readonly limitPerTool: number = MAX_CIRCUITS_PER_TOOL,
    readonly includeLastError: boolean = false,
  ) {
    this.#policyOf = policyFinder(policies, warnings);
  }

  /** Return the circuit that decides on a call. */
  get(tool: string, userId: string, sessionId: string, target = ""): LocalCircuit {
    let known = this.#tools.get(tool);
    if (known === undefined) {
      if (this.#tools.size >= this.limit) {
        this.#retireTools();
      }
      if (this.#tools.size >= this.limit) {
        return this.#uncounted;
      }
      this.onNewTool?.(tool);
      known = { policy: this.#policyOf(tool), circuits: new Map() };
      this.#tools.set(tool, known);
    }
    let circuitId = circuitIdOf(tool, known.policy, userId, sessionId, target);
    if (!known.circuits.has(circuitId) && known.circuits.size >= this.limitPerTool) {
      this.#retire(known);
      circuitId = known.circuits.size >= this.limitPerTool ? idOf(tool) : circuitId; // the tool's own may be one beyond the limit
    }
    let circuit = known.circuits.get(circuitId);
    if (circuit === undefined) {
      circuit = new LocalCircuit(new Breaker(circuitId, known.policy, this.now()), null, this.includeLastError);
      circuit.breaker.onMove = this.onMove;
      known.circuits.set(circuitId, circuit);
    }
    return circuit;
  }

  /** Return the circuit that decides on a call, if there is one already. */
  known(tool: string, userId: string, sessionId: string, target = ""): LocalCircuit | null {
    const known = this.#tools.get(tool);
    return known?.circuits.get(circuitIdOf(tool, known.policy, userId, sessionId, target)) ?? null;
  }

  /** Return the `target` of the tool's policy. */
  targetRule(tool: string): string | null {
    return (this.#tools.get(tool)?.policy ?? this.#policyOf(tool)).target;
  }

  /** Return every circuit of this moment. */
  all(): LocalCircuit[] {
    return [...this.#tools.values()].flatMap((known) => [...known.circuits.values()]);
  }

  /** Return the names of the tools of this moment. */
  names(): string[] {
    return [...this.#tools.keys()];
  }

  /** Return the circuits of one tool. */
  ofTool(tool: string): LocalCircuit[] {
    return [...(this.#tools.get(tool)?.circuits.values() ?? [])];
  }

  #retireTools(): void {
    for (const [tool, known] of [...this.#tools].slice(0, LOOKED_AT)) {
      this.#tools.delete(tool);
      this.#retire(known);
      if (known.circuits.size > 0) {
        this.#tools.set(tool, known);
      }
    }
  }

  /** Look at the circuits that were looked at longest ago. Those that stay move to the end. */
  #retire(known: ToolCircuits): void {
    for (const [circuitId, circuit] of [...known.circuits].slice(0, LOOKED_AT)) {
      known.circuits.delete(circuitId);
      if (!circuit.breaker.mayRetire(this.now())) {
        known.circuits.set(circuitId, circuit);
      }
    }
  }
}

/** Return the state of every circuit that isn't closed, by circuit id. */
export function notClosed(circuits: readonly LocalCircuit[]): Record<string, CircuitState> {
  const found = circuits.filter((circuit) => circuit.breaker.state !== "closed");
  return Object.fromEntries(found.map((circuit) => [circuit.breaker.circuitId, circuit.breaker.state]));
}

/** Return the function from a tool to its policy. */
function policyFinder(policies: LocalPolicies | undefined, warnings: Warnings): (tool: string) => Policy {
  if (policies === undefined) {
    return () => LOCAL_DEFAULT;
  }
  if (typeof policies === "function") {
    const message = "the function of policies has no policy for a tool, which gets the default policy";
    return (tool) => warnings.attempt(message, () => localPolicy(policies(tool), LOCAL_DEFAULT)) ?? LOCAL_DEFAULT;
  }
  if ("tools" in policies) {
    const named = new Map(
      Object.entries(policies.tools).map(([tool, input]) => [tool, localPolicy(input, LOCAL_DEFAULT)]),
    );
    return (tool) => named.get(tool) ?? LOCAL_DEFAULT;
  }
  const policy = localPolicy(policies, LOCAL_DEFAULT);
  return () => policy;
}

/** Return the policy that the user gave. A rule that isn't named is off; without any name it is the default. */
export function localPolicy(given: PolicyInput, otherwise: Policy): Policy {
  return Object.keys(given).length === 0 ? otherwise : policyOf(given);
}
