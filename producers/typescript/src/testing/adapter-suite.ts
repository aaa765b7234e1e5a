/**
 * Tests that every wrapper of an agent framework passes, as `switchgear.testing.adapter_suite` has them for Python. Run them for a wrapper of
 * your own, with any test runner:
 *
 *     for (const { name, notPossible, run } of adapterSuite(myDriver)) test(name, { skip: notPossible }, run);
 *
 * A driver runs an agent of the framework with a scripted model, without a network and without keys.
 */
import { CircuitOpenError, Rejection } from "../rejection.js";
import { SwitchgearError } from "../errors.js";
import type { PolicyInput } from "../breaker/policy.js";
import type { Session, Switchgear } from "../switchgear.js";
import { InMemoryGateway, type SentEvent } from "./gateway.js";

export const FORECAST = "get_forecast";
export const BACKUP = "backup_forecast";
export const NEWS = "get_news";

/** What a framework gives to a tool besides its arguments: the signal of the run, under either name. */
export interface ToolOptions {
  readonly signal?: AbortSignal | undefined;
  readonly abortSignal?: AbortSignal | undefined;
}

type Does = (city: string, signal: AbortSignal | undefined) => unknown;

/** A tool with one argument, `city`. The driver makes a tool of the framework from it. */
export interface SuiteTool {
  /** Its name for the model. */
  readonly name: string;
  /** The function for the framework's tool. Give it as it is, if the framework takes such a function, so that a guard on it is seen. */
  readonly call: (input: { readonly city: string }, options?: ToolOptions) => unknown;
}

/** A call that the scripted model asks for. */
export interface SuiteCall {
  readonly tool: string;
  readonly args: Readonly<Record<string, unknown>>;
}

/** What happened in a run, as the model saw it. */
export interface SuiteRun {
  /** The texts of the tools' results, in the order of the calls. */
  readonly results: readonly string[];
  /** The names of the tools that the model was offered, per request. */
  readonly offered: readonly (readonly string[])[];
  /** The system prompts, per request. */
  readonly prompts: readonly string[];
  /** What users, tools and the model said before each request, as one text each. */
  readonly conversation: readonly string[];
  /** The error that ended the run. */
  readonly error?: unknown;
}

export interface SuiteOptions {
  /** Run the agent in the framework's streaming mode. */
  readonly stream?: boolean;
  /** End the run after this many refused calls. */
  readonly terminalAfter?: number;
  /** Let the framework's own means repeat a failed call that often, without a pause. */
  readonly retries?: number;
  /** Aborts the run. */
  readonly signal?: AbortSignal;
}

/** Runs agents of one framework behind its wrapper. */
export interface AdapterDriver {
  /** Tests that the framework has no means for, by name, and why. */
  readonly notPossible: Readonly<Record<string, string>>;
  /** The framework itself refuses a call of a tool that the model was not offered, so the wrapper doesn't see it. */
  readonly refusesUnoffered?: boolean;
  /**
   * Run an agent whose model asks for the calls of each turn, then answers "done". Several calls of a turn are made in parallel. An error of
   * the run becomes `error`.
   */
  run(
    gear: Switchgear | Session,
    tools: readonly SuiteTool[],
    turns: readonly (readonly SuiteCall[])[],
    options: SuiteOptions,
  ): Promise<SuiteRun>;
  /** Pause the run from within a tool by the framework's own means: throw its error, or return its value. */
  interrupt(): unknown;
  /** Fail from within a tool by the framework's own means for errors that the model reads: throw it, or return it. */
  errorValue(text: string): unknown;
}

export interface SuiteTest {
  readonly name: string;
  /** Why this framework has no means for it, or false. */
  readonly notPossible: string | false;
  readonly run: () => Promise<void>;
}

/** Return the tests for a driver. */
export function adapterSuite(driver: AdapterDriver): readonly SuiteTest[] {
  const unknown = Object.keys(driver.notPossible).filter((name) => !(name in TESTS));
  if (unknown.length > 0) {
    throw new SwitchgearError(`The suite has no test called ${JSON.stringify(unknown[0])}.`);
  }
  return Object.entries(TESTS).map(([name, test]) => ({
    name,
    notPossible: driver.notPossible[name] ?? false,
    run: async () => {
      const bench = new Bench(driver);
      try {
        await test(bench);
      } finally {
        await bench.gateway.close();
      }
    },
  }));
}

const COUNTED = ["transport", "timeout", "server", "rate_limited", "unknown"];
const OUTAGE = "HTTP Error 503: Service Unavailable";
const OSLO: SuiteCall = { tool: FORECAST, args: { city: "Oslo" } };
const FIRST: PolicyInput = { consecutive_failures: 1 };
const QUICK: PolicyInput = { consecutive_failures: 2 };

/** One test's gateway, driver and tools. */
class Bench {
  readonly gateway = new InMemoryGateway();
  /** The cities that each tool was called with. */
  readonly calls: Record<string, string[]> = {};

  constructor(readonly driver: AdapterDriver) {}

  tool(does: Does = (city) => `sunny in ${city}`, name = FORECAST): SuiteTool {
    this.calls[name] = [];
    return {
      name,
      call: ({ city }, options) => {
        this.calls[name]!.push(city);
        return does(city, options?.abortSignal ?? options?.signal);
      },
    };
  }

  fails(error: unknown): SuiteTool {
    return this.tool(() => {
      throw error;
    });
  }

  run(
    gear: Switchgear | Session,
    tools: readonly SuiteTool[],
    turns: readonly (readonly SuiteCall[])[] = [[OSLO]],
    options: SuiteOptions = {},
  ): Promise<SuiteRun> {
    return this.driver.run(gear, tools, turns, options);
  }

  async statuses(tool: string): Promise<unknown[]> {
    return (await this.gateway.events(tool)).map((each) => each["status"]);
  }

  async classes(tool: string): Promise<unknown[]> {
    const events = await this.gateway.events(tool);
    return events.filter((each) => each["status"] !== "rejected").map((each) => each["error_class"]);
  }

  async counted(): Promise<readonly SentEvent[]> {
    return (await this.gateway.events()).filter((each) => COUNTED.includes(String(each["error_class"])));
  }

  /** Abort a run while its tool hangs, `seconds` after the call began. */
  async abortAfter(seconds: number, gear: Switchgear): Promise<void> {
    const stop = new AbortController();
    const hangs = this.tool((_, signal) => {
      setTimeout(() => {
        this.gateway.clock.advance(seconds);
        stop.abort();
      }, 0);
      return new Promise((_resolve, reject) => signal?.addEventListener("abort", () => reject(signal.reason)));
    });
    await this.run(gear, [hangs], [[OSLO]], { signal: stop.signal });
    equal(this.calls[FORECAST], ["Oslo"]);
  }
}

const refused = (): Error => Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
const textIn = ({ results, error }: SuiteRun): string =>
  [...results, error === undefined ? "" : String(error)].join("\n");

const TESTS: Record<string, (bench: Bench) => Promise<void>> = {
  "success is counted with its duration": async (bench) => {
    const { gateway } = bench;
    const tool = bench.tool((city) => {
      gateway.clock.advance(2);
      return `sunny in ${city}`;
    });
    const found = await bench.run(gateway.gear(), [tool]);
    equal(found.error, undefined);
    equal(bench.calls[FORECAST], ["Oslo"]);
    contains(textIn(found), "sunny in Oslo");
    const events = await gateway.events(FORECAST);
    equal(
      events.map((each) => [each["status"], each["execution_time_ms"]]),
      [["success", 2000]],
    );
  },

  "exceptions count and open the circuit": async (bench) => {
    const gear = bench.gateway.gear({ localPolicies: QUICK });
    const tool = bench.fails(refused());
    for (let time = 0; time < 3; time += 1) {
      await bench.run(gear, [tool]);
    }
    equal(bench.calls[FORECAST]!.length, 2);
    equal(gear.status().local, { [FORECAST]: "open" });
    equal(await bench.classes(FORECAST), ["transport", "transport"]);
  },

  "error as a value counts as the tool's error": async (bench) => {
    for (const text of ["no such city", OUTAGE]) {
      const gear = bench.gateway.gear({ localPolicies: FIRST });
      await bench.run(gear, [bench.tool(() => bench.driver.errorValue(text))]);
      equal(gear.isOpen(FORECAST), false);
    }
    equal(await bench.classes(FORECAST), ["tool", "tool"]);
  },

  "error as a value counts by its text if the user trusts it": async (bench) => {
    const gear = bench.gateway.gear({ outagesInText: [FORECAST] });
    await bench.run(gear, [bench.tool(() => bench.driver.errorValue(OUTAGE))]);
    equal(await bench.classes(FORECAST), ["server"]);
  },

  "timeout counts as a timeout": async (bench) => {
    await bench.run(bench.gateway.gear(), [bench.fails(Object.assign(new Error("slow"), { name: "TimeoutError" }))]);
    const events = await bench.gateway.events(FORECAST);
    equal(
      events.map((each) => [each["status"], each["error_class"]]),
      [["timeout", "timeout"]],
    );
  },

  "cancellation does not count": async (bench) => {
    const gear = bench.gateway.gear({ localPolicies: FIRST });
    await bench.abortAfter(4, gear);
    equal(await bench.counted(), []);
    equal(gear.isOpen(FORECAST), false);
  },

  "cancellation after the limit counts as a timeout": async (bench) => {
    const gear = bench.gateway.gear({ localPolicies: FIRST });
    await bench.abortAfter(6, gear);
    equal(await bench.classes(FORECAST), ["timeout"]);
    equal(gear.isOpen(FORECAST), true);
  },

  "interrupt or deferral does not count": async (bench) => {
    const gear = bench.gateway.gear({ localPolicies: FIRST });
    await bench.run(gear, [bench.tool(() => bench.driver.interrupt())]);
    equal(bench.calls[FORECAST], ["Oslo"]);
    equal(gear.isOpen(FORECAST), false);
    equal(
      (await bench.classes(FORECAST)).filter((each) => each !== "policy"),
      [],
    );
  },

  "unknown tool makes no circuit": async (bench) => {
    const gear = bench.gateway.gear({ localPolicies: FIRST });
    await bench.run(gear, [bench.tool()], [[{ tool: "no_such_tool", args: { city: "Oslo" } }]]);
    equal(await bench.gateway.events("no_such_tool"), []);
    equal(await bench.counted(), []);
  },

  "bad arguments are the caller's error": async (bench) => {
    const gear = bench.gateway.gear({ localPolicies: FIRST });
    await bench.run(gear, [bench.tool()], [[{ tool: FORECAST, args: { wrong: 1 } }]]);
    equal(bench.calls[FORECAST], []);
    equal(await bench.counted(), []);
    equal(gear.isOpen(FORECAST), false);
    equal(
      (await bench.classes(FORECAST)).filter((each) => each !== "invalid_input" && each !== "tool"),
      [],
    );
  },

  "refusal of another guard within the tool does not count": async (bench) => {
    const gear = bench.gateway.gear({ localPolicies: FIRST });
    const rejection = new Rejection({ tool: "database", state: "open", source: "fleet", lastError: "refused" });
    await bench.run(gear, [bench.fails(new CircuitOpenError(rejection))]);
    equal(await bench.counted(), []);
    equal(gear.isOpen(FORECAST), false);
  },

  "refusal text reaches the model and the tool is not called": async (bench) => {
    const gear = bench.gateway.gear();
    await bench.gateway.openCircuit(FORECAST);
    const found = await bench.run(gear, [bench.tool(), bench.tool(undefined, NEWS)]);
    equal(bench.calls[FORECAST], []);
    contains(found.results.join("\n"), `The tool ${FORECAST} is unavailable (circuit forced open).`);
    equal(await bench.statuses(FORECAST), ["rejected"]);
    equal(found.error, undefined);
  },

  "list stays as it is while a tool is down": async (bench) => {
    const gear = bench.gateway.gear();
    const tools = [bench.tool(), bench.tool(undefined, NEWS)];
    await gear.ready();
    await bench.gateway.openCircuit(FORECAST);
    equal((await bench.run(gear, tools, [])).offered[0], [FORECAST, NEWS]);
    equal(gear.status().toolListChanges, 0);
  },

  "hidden tools are left out of the list": async (bench) => {
    const gear = bench.gateway.gear({ toolList: "hide", hideAfterS: 0 });
    const tools = [bench.tool(), bench.tool(undefined, NEWS)];
    await gear.ready();
    equal((await bench.run(gear, tools, [])).offered[0], [FORECAST, NEWS]);
    await bench.gateway.openCircuit(FORECAST);
    equal((await bench.run(gear, tools, [])).offered[0], [NEWS]);
    await bench.gateway.closeCircuit(FORECAST);
    equal((await bench.run(gear, tools, [])).offered[0], [FORECAST, NEWS]);
  },

  "outage is told once in the conversation and so is its end": async (bench) => {
    const gear = bench.gateway.gear();
    let ends = async (): Promise<void> => {};
    const news = bench.tool(async () => {
      await ends();
      return "no news";
    }, NEWS);
    const turns = [1, 2, 3].map((day) => [{ tool: NEWS, args: { city: `Oslo ${day}` } }]);
    await gear.ready();
    const quiet = await bench.run(gear, [bench.tool(), news], turns);
    equal(quiet.conversation.join().includes("unavailable"), false);
    await bench.gateway.openCircuit(FORECAST);
    await bench.gateway.openCircuit("a_tool_of_another_agent");
    ends = async () => {
      await bench.gateway.closeCircuit(FORECAST);
      await bench.gateway.advance(61);
    };
    const found = await bench.run(gear, [bench.tool(), news], turns);
    equal(found.prompts, quiet.prompts);
    const said = `These tools are unavailable: ${FORECAST}. `;
    equal(
      found.conversation.map((text) => text.split(said).length - 1),
      [1, 1, 1, 1],
    );
    equal(found.conversation.at(-1)!.split(`These tools may be called again: ${FORECAST}.`).length - 1, 1);
    equal(found.conversation.join().includes("a_tool_of_another_agent"), false);
    for (const [place, earlier] of found.conversation.slice(0, -1).entries()) {
      equal(found.conversation[place + 1]!.startsWith(earlier), true); // what a provider has read stays as it is
    }
  },

  "fallback runs": async (bench) => {
    const gear = bench.gateway.gear({ fallbacks: { [FORECAST]: BACKUP } });
    await bench.gateway.openCircuit(FORECAST);
    const backup = bench.tool((city) => `cloudy in ${city}, says the backup`, BACKUP);
    const found = await bench.run(gear, [bench.tool(), backup]);
    equal([bench.calls[FORECAST], bench.calls[BACKUP]], [[], ["Oslo"]]);
    contains(textIn(found), "cloudy in Oslo, says the backup");
    const events = await bench.gateway.events(FORECAST);
    equal(
      events.map((each) => [each["served_by"], each["fallback_tool"]]),
      [["fallback", BACKUP]],
    );
    equal(await bench.statuses(BACKUP), ["success"]);
  },

  "terminal refusal ends the run": async (bench) => {
    const gear = bench.gateway.gear();
    const tools = [bench.tool(), bench.tool(undefined, NEWS)];
    await bench.gateway.openCircuit(FORECAST);
    const turns = Array.from({ length: 8 }, (_, turn) => [{ tool: FORECAST, args: { city: `Oslo ${turn}` } }]);
    equal((await bench.run(gear, tools, turns)).prompts.length, 9);
    const ended = await bench.run(gear, tools, turns, { terminalAfter: 3 });
    equal(bench.calls[FORECAST], []);
    equal(ended.prompts.length, 3);
  },

  "probe is leased and its success closes the circuit": async (bench) => {
    const gear = bench.gateway.gear();
    await bench.gateway.openCircuit(FORECAST, 30);
    await bench.run(gear, [bench.tool()]);
    equal(bench.calls[FORECAST], []);
    await bench.gateway.advance(31);
    contains(textIn(await bench.run(gear, [bench.tool()])), "sunny in Oslo");
    const leased = (await bench.gateway.events(FORECAST)).filter((each) => "lease_id" in each);
    equal(
      leased.map((each) => [each["status"], each["lease_id"]]),
      [["success", "permit-1"]],
    );
    equal(bench.gateway.state(FORECAST), "closed");
  },

  "probe of an interrupted call is released": async (bench) => {
    const gear = bench.gateway.gear();
    await bench.gateway.openCircuit(FORECAST, 30);
    await gear.ready();
    await bench.gateway.advance(31);
    await bench.run(gear, [bench.tool(() => bench.driver.interrupt())]);
    equal(bench.gateway.state(FORECAST), "open");
    contains(textIn(await bench.run(gear, [bench.tool()])), "sunny in Oslo");
    await bench.gateway.events();
    equal(bench.gateway.state(FORECAST), "closed");
  },

  "streaming counts each call once": async (bench) => {
    const found = await bench.run(bench.gateway.gear(), [bench.tool()], [[OSLO]], { stream: true });
    equal(found.error, undefined);
    equal(bench.calls[FORECAST], ["Oslo"]);
    equal(await bench.statuses(FORECAST), ["success"]);
  },

  "parallel calls are counted apart": async (bench) => {
    const calls = [OSLO, { tool: NEWS, args: { city: "Oslo" } }, { tool: FORECAST, args: { city: "Bergen" } }];
    const tools = [bench.tool(), bench.tool((city) => `no news of ${city}`, NEWS)];
    const found = await bench.run(bench.gateway.gear(), tools, [calls]);
    equal([...bench.calls[FORECAST]!].sort(), ["Bergen", "Oslo"]);
    contains(textIn(found), "no news of Oslo");
    equal([await bench.statuses(FORECAST), await bench.statuses(NEWS)], [["success", "success"], ["success"]]);
  },

  "asynchronous tools are guarded too": async (bench) => {
    const gear = bench.gateway.gear();
    const tools = [bench.tool(async (city) => `sunny in ${city}`), bench.tool(undefined, NEWS)];
    contains(textIn(await bench.run(gear, tools)), "sunny in Oslo");
    await bench.gateway.openCircuit(FORECAST);
    await bench.run(gear, tools);
    equal(bench.calls[FORECAST], ["Oslo"]);
    equal(await bench.statuses(FORECAST), ["success", "rejected"]);
  },

  "session limits hold and events carry the session": async (bench) => {
    const session = bench.gateway.gear().session({ sessionId: "s-1", maxCalls: 1 });
    const found = await bench.run(session, [bench.tool()], [[OSLO], [OSLO]]);
    equal(bench.calls[FORECAST], ["Oslo"]);
    contains(textIn(found), "Do not call any tool again in this session");
    contains(found.conversation.at(-1)!, "No tool can be called any more in this session.");
    const events = await bench.gateway.events(FORECAST);
    equal([...new Set(events.map((each) => each["session_id"]))], ["s-1"]);
  },

  "guarded function is counted once and its circuit filters": async (bench) => {
    const gear = bench.gateway.gear({ toolList: "hide", hideAfterS: 0 });
    const plain = bench.tool();
    const tools = [{ ...plain, call: gear.guard("weather", plain.call) }, bench.tool(undefined, NEWS)];
    await bench.run(gear, tools);
    equal(await bench.statuses("weather"), ["success"]);
    equal(await bench.statuses(FORECAST), []);
    await bench.gateway.openCircuit("weather");
    const found = await bench.run(gear, tools);
    equal(bench.calls[FORECAST], ["Oslo"]);
    if (!bench.driver.refusesUnoffered) {
      contains(found.results.join("\n"), "is unavailable (circuit forced open).");
    }
    equal(found.offered[0], [NEWS]);
  },

  "retries of the framework count once": async (bench) => {
    await bench.run(bench.gateway.gear(), [bench.fails(refused())], [[OSLO]], { retries: 2 });
    equal(bench.calls[FORECAST]!.length, 3);
    equal((await bench.counted()).length, 1);
  },
};

function equal(found: unknown, expected: unknown): void {
  const [one, other] = [JSON.stringify(found), JSON.stringify(expected)];
  if (one !== other) {
    throw new Error(`found ${one}, expected ${other}`);
  }
}

function contains(text: string, part: string): void {
  if (!text.includes(part)) {
    throw new Error(`${JSON.stringify(part)} is not in ${JSON.stringify(text)}`);
  }
}
