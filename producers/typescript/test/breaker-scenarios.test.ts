import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { candidates } from "../src/guard/fallback.js";
import { Breaker } from "../src/breaker/breaker.js";
import { policyOf } from "../src/breaker/policy.js";
import type { CircuitState } from "../src/breaker/values.js";
import { FamilyPlayer, isAlone } from "./support/family-player.js";
import { ACTION_KEYS, LocalPlayer } from "./support/local-player.js";
import { repositoryScenarios, sharedScenarios, SHARED_FILE, type Scenario, type Step } from "./support/scenarios.js";

const STATE_OF_OPERATION: Record<string, CircuitState> = {
  open: "open",
  trip: "open",
  close: "closed",
  reset: "closed",
};

/** One breaker per target of a route. */
class GroupPlayer {
  readonly #breakers: Map<string, Breaker>;
  readonly #most: number;

  constructor(config: Record<string, unknown>) {
    const policy = policyOf({ wait_duration_in_open_state_s: (config["open_s"] as number | undefined) ?? 600 });
    this.#breakers = new Map((config["targets"] as string[]).map((target) => [target, new Breaker(target, policy, 0)]));
    this.#most = ((config["max_open_percent"] ?? config["max_ejection_percent"]) as number | undefined) ?? 100;
  }

  play(step: Step): void {
    const target = step["target"] as string;
    if (step.op !== "check") {
      this.#breakers.get(target)!.transitionTo(STATE_OF_OPERATION[step.op]!, step.t, "scenario");
    }
    const kept = candidates(
      [...this.#breakers.keys()],
      (each) => this.#breakers.get(each)!.state === "open",
      this.#most,
    );
    if ("candidates" in step) {
      assert.deepEqual(kept, step["candidates"]);
    }
    if ("state" in step) {
      assert.equal(this.#breakers.get(target)!.state, step["state"]);
    }
    for (const key of ["ejected", "left_out"]) {
      if (key in step) {
        assert.equal(!kept.includes(target), step[key]);
      }
    }
  }
}

const PLAYERS: Record<string, new (config: Record<string, unknown>) => { play(step: Step): void | Promise<void> }> = {
  local: LocalPlayer,
  group: GroupPlayer,
  family: FamilyPlayer,
};

function play(scenarios: readonly Scenario[]): void {
  for (const scenario of scenarios) {
    const Player = PLAYERS[scenario.kind];
    if (Player === undefined || (scenario.kind === "family" && !isAlone(scenario.config))) {
      continue; // of a fleet's worker, or of the Python client's sessions
    }
    it(`every step of ${scenario.id} has the expected result: ${scenario.title}`, async () => {
      const player = new Player(scenario.config);
      for (const [number, step] of scenario.steps.entries()) {
        try {
          await player.play(step);
        } catch (error) {
          throw new Error(`step ${number} ${JSON.stringify(step)}`, { cause: error });
        }
      }
    });
  }
}

/** Return the step once for each plain expectation, with that one wrong. */
function* turned(step: Step): Generator<Step> {
  for (const [key, expected] of Object.entries(step)) {
    if (!ACTION_KEYS.has(key)) {
      const wrong =
        typeof expected === "boolean" ? !expected : typeof expected === "object" ? { failed: -1, opened: -1 } : "wrong";
      yield { ...step, [key]: wrong };
    }
  }
}

describe("acceptance scenarios of the repository", () => {
  const scenarios = repositoryScenarios();
  play(scenarios);

  it("there are local, group and family scenarios", () => {
    const count = (kind: string): number =>
      scenarios.filter((each) => each.kind === kind && (kind !== "family" || isAlone(each.config))).length;
    assert.ok(count("local") >= 60 && count("group") >= 3 && count("family") >= 5);
  });

  it("a local scenario fails with any wrong expectation", () => {
    for (const scenario of scenarios.filter((each) => each.kind === "local")) {
      for (const [place, step] of scenario.steps.entries()) {
        for (const wrong of turned(step)) {
          const player = new LocalPlayer(scenario.config);
          scenario.steps.slice(0, place).forEach((each) => player.play(each));
          assert.throws(() => player.play(wrong), assert.AssertionError, `${scenario.id} step ${place}`);
        }
      }
    }
  });
});

describe("acceptance scenarios of the shared folder", () => {
  const scenarios = sharedScenarios();
  if (scenarios === null) {
    it("every shared scenario has the expected results", { skip: `${SHARED_FILE} is not there` }, () => {});
  } else {
    play(scenarios);
  }
});
