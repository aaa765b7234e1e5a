/** The player of `family` scenarios without a fleet: processes call the tools of servers, each by its own circuits. */
import assert from "node:assert/strict";
import { LOCAL_DEFAULT, LOCAL_FAMILY_DEFAULT, type PolicyInput } from "../../src/breaker/policy.js";
import { familyFinder, DEFAULT_FAMILY_PATTERN } from "../../src/families.js";
import { CircuitOpenError, Rejection, Switchgear, type Permit } from "../../src/index.js";
import { TestClock } from "./clock.js";
import { classOf, end, isFailure, report, type Outcome } from "./endings.js";
import type { Step } from "./scenarios.js";

const ACTION_KEYS = [
  "t",
  "op",
  "by",
  "tool",
  "tools",
  "times",
  "family",
  "outcome",
  "ms",
  "id",
  "user",
  "session",
  "credential",
  "args",
  "note",
];
const familyOf = familyFinder(DEFAULT_FAMILY_PATTERN);
/** The rules of the default. It has no longest wait, so that a longer wait raises it, as in a policy file. */
const { consecutive_failures, cusum } = LOCAL_DEFAULT;

interface Tables {
  readonly default?: PolicyInput;
  readonly family?: Readonly<Record<string, PolicyInput>>;
}

/** Return whether a scenario needs no fleet. */
export function isAlone(config: Readonly<Record<string, unknown>>): boolean {
  return config["alone"] === true;
}

export class FamilyPlayer {
  readonly #clock = new TestClock();
  readonly #tables: Tables;
  readonly #processes = new Map<string, Switchgear>();
  readonly #permits = new Map<string, Permit[]>();
  readonly #outagesInText: readonly string[] | undefined;
  readonly #passTime = (seconds: number): void => this.#clock.advance(seconds);

  constructor(config: Readonly<Record<string, unknown>>) {
    assert.ok(
      Object.keys(config).every((key) => ["alone", "policies", "outages_in_text"].includes(key)),
      "the adapter does not know a key",
    );
    this.#outagesInText = config["outages_in_text"] as readonly string[] | undefined;
    this.#tables = (config["policies"] as Tables | undefined) ?? {};
    assert.ok(
      Object.keys(this.#tables).every((key) => ["default", "family"].includes(key)),
      "the adapter does not know a table",
    );
    this.#clock.offset = Date.parse("2026-01-01T08:00:00Z") / 1000;
  }

  async play(step: Step): Promise<void> {
    this.#clock.seconds = step.t;
    const seen = await this.#operate(step);
    for (const [key, expected] of Object.entries(step)) {
      if (!ACTION_KEYS.includes(key)) {
        assert.ok(key in seen, `the adapter does not know the expectation ${key}`);
        if (key === "retry_after") {
          assert.ok(Math.abs((seen[key] as number) - (expected as number)) < 1e-6, key);
        } else {
          assert.deepEqual(seen[key], expected, key);
        }
      }
    }
  }

  async #operate(step: Step): Promise<Record<string, unknown>> {
    const seen: Record<string, unknown> = {};
    if (step.op === "calls") {
      await this.#calls(step, seen);
    } else if (step.op === "call" || step.op === "acquire") {
      await this.#ask(step, seen);
    } else if (step.op === "record") {
      for (const permit of this.#permits.get(step["id"] as string)!) {
        report(permit, step["outcome"] as Outcome, this.#passTime);
      }
    } else {
      assert.equal(step.op, "check");
    }
    return { ...seen, ...this.#look(step) };
  }

  /** Make calls with permits, or begin them, which `record` ends. All but the number of permits is of the last call. */
  async #ask(step: Step, seen: Record<string, unknown>): Promise<void> {
    const begun: Permit[] = [];
    let permitted = 0;
    for (let time = 0; time < ((step["times"] as number | undefined) ?? 1); time += 1) {
      const permit = await this.#acquire(step, seen);
      if (permit === null) {
        continue;
      }
      permitted += 1;
      if (step.op === "call") {
        report(permit, step["outcome"] as Outcome, this.#passTime);
      } else {
        begun.push(permit);
      }
    }
    this.#permits.set((step["id"] as string | undefined) ?? "", begun);
    seen["permitted"] = permitted;
  }

  async #acquire(step: Step, seen: Record<string, unknown>): Promise<Permit | null> {
    const answer = await this.#process(step["by"] as string).tryAcquire(step["tool"] as string, {
      userId: step["user"] as string | undefined,
      sessionId: step["session"] as string | undefined,
      credential: step["credential"] as string | undefined,
    });
    Object.assign(seen, { permit: answer.allowed, probe: answer.allowed && answer.probe });
    if (answer.allowed) {
      return answer;
    }
    Object.assign(seen, { refused_by: refusedBy(answer), refused_in: answer.source, retry_after: answer.retryAfterS });
    return null;
  }

  /** Let each process call each tool with `args`, as often as the step says, by its guarded function. */
  async #calls(step: Step, seen: Record<string, unknown>): Promise<void> {
    const refused: Record<string, number> = {};
    let permitted = 0;
    for (let time = 0; time < ((step["times"] as number | undefined) ?? 1); time += 1) {
      for (const by of step["by"] as string[]) {
        for (const tool of step["tools"] as string[]) {
          try {
            const act = (_given: unknown): unknown => end(step["outcome"] as Outcome, this.#passTime);
            await this.#process(by).guard(tool, act)(step["args"] ?? {});
            permitted += 1;
          } catch (error) {
            if (error instanceof CircuitOpenError) {
              const source = refusedBy(error.rejection);
              refused[source] = (refused[source] ?? 0) + 1;
            } else {
              assert.ok(isFailure(error), String(error));
              permitted += 1;
            }
          }
        }
      }
    }
    Object.assign(seen, { permitted, refused });
  }

  #look(step: Step): Record<string, unknown> {
    const by = step["by"];
    if (typeof by !== "string" && !Array.isArray(by)) {
      return {};
    }
    const process = this.#process(Array.isArray(by) ? (by[0] as string) : by);
    const tool = step["tool"] as string | undefined;
    const family = (step["family"] as string | undefined) ?? (tool === undefined ? undefined : familyOf(tool)?.name);
    const { local } = process.status();
    return {
      not_closed: local,
      notice: process.notice(),
      ...(tool === undefined ? {} : { state: local[tool] ?? "closed", open: process.isOpen(tool) }),
      ...(family === undefined ? {} : { family_state: local[`${family}|family`] ?? "closed" }),
      ...(step["tools"] === undefined
        ? {}
        : { available: (step["tools"] as string[]).filter((tool) => !process.isOpen(tool)) }),
    };
  }

  #process(name: string): Switchgear {
    let found = this.#processes.get(name);
    if (found === undefined) {
      found = Switchgear.local({
        clock: this.#clock,
        localPolicies: { consecutive_failures, cusum, ...this.#tables.default },
        localFamilyPolicy: { ...LOCAL_FAMILY_DEFAULT, ...this.#tables.family?.["*"] },
        classify: classOf,
        outagesInText: this.#outagesInText,
      });
      this.#processes.set(name, found);
    }
    return found;
  }
}

function refusedBy(rejection: Rejection): string {
  assert.equal(rejection.family !== null, rejection.scope === "family");
  return rejection.family === null ? "tool" : "family";
}
