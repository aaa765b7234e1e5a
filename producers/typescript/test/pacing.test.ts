import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { IGNORE } from "../src/classify/classification.js";
import { isRefusal, META_KEY, readToolFailure, toolFailure } from "../src/classify/tool-failure.js";
import { readView } from "../src/fleet/view.js";
import { callerOf } from "../src/guard/caller.js";
import { Credentials, keyOf } from "../src/guard/credentials.js";
import type { FleetCircuits } from "../src/guard/fleet-circuits.js";
import { CircuitOpenError, type Permit, type Rejection, type Switchgear } from "../src/index.js";
import { InMemoryGateway } from "../src/testing/index.js";
import { SYSTEM_CLOCK, type Clock } from "../src/wire/timing.js";
import { REPOSITORY } from "./support/scenarios.js";

type Json = Record<string, unknown>;
interface Scenario {
  readonly id: string;
  readonly title: string;
  readonly steps: readonly Step[];
}
interface Step extends Json {
  readonly t: number;
  readonly op: "calls" | "record" | "unreadable" | "silence" | "confirm" | "look";
  readonly times?: number;
  readonly credential?: string;
  readonly record?: Json;
  readonly pace?: string;
}

const FILE = join(REPOSITORY, "tests", "acceptance", "pacing_scenarios.json");
const ACTIONS = ["t", "op", "times", "credential", "record", "pace"];
const KEY = "0123456789abcdef";
const NEAR = 1e-6;
const TOOL = "search";
/** Let all that waits for nothing go on. */
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** A clock that a test moves, and whose timers go off then. */
class TimedClock implements Clock {
  seconds = 0;
  readonly timers = new Map<() => void, number>();

  readonly now = (): number => this.seconds;
  readonly wall = (): number => Date.UTC(2026, 0, 1) / 1000 + this.seconds;
  readonly later = (seconds: number, act: () => void): (() => void) => {
    this.timers.set(act, this.seconds + seconds);
    return () => void this.timers.delete(act);
  };

  async moveTo(t: number): Promise<void> {
    for (;;) {
      const [next] = [...this.timers].sort((one, other) => one[1] - other[1]);
      if (next === undefined || next[1] > t + NEAR) {
        break;
      }
      this.seconds = Math.max(this.seconds, next[1]);
      this.timers.delete(next[0]);
      next[0]();
      await settle();
    }
    this.seconds = t;
  }
}

/** Plays the steps of one scenario with a client. */
class Player {
  readonly clock = new TimedClock();
  readonly gateway = new InMemoryGateway();
  readonly gear = this.gateway.gear({ clock: this.clock, parametersKey: KEY });
  #silent = false;
  #passes = 0;
  #refused = 0;
  #waiting = 0;
  #refusal: Rejection | null = null;

  async play(step: Step): Promise<void> {
    this.#passes = this.#refused = 0;
    await this.clock.moveTo(step.t);
    this.#fleet.refusals.sweep(false);
    this.#silent = step.op === "silence" || (this.#silent && step.op !== "confirm");
    if (!this.#silent) {
      await this.gateway.advance(0); // a heartbeat
    }
    if (step.op === "calls") {
      for (let time = 0; time < (step.times ?? 1); time += 1) {
        this.#waiting += 1;
        void this.gear.tryAcquire(TOOL, { credential: step.credential }).then((answer) => this.#take(answer));
        await settle();
      }
    } else if (step.op === "record") {
      await this.#publish(step.record!);
    } else if (step.op === "unreadable") {
      const text = JSON.stringify({
        circuit_id: TOOL,
        tool_name: TOOL,
        state: "closed",
        version: 99,
        generation: 1,
        pace: 0,
      });
      assert.ok(isUnreadable(text.replace('"pace":0', `"pace":${step.pace}`)), step.pace);
    }
    await settle();
    const seen = await this.#look("asked" in step);
    for (const [key, expected] of Object.entries(step)) {
      if (!ACTIONS.includes(key)) {
        const found = seen[key];
        const isNear =
          typeof expected === "number" &&
          Math.abs((found as number) - expected) <= NEAR * Math.max(1, Math.abs(expected));
        assert.deepEqual(isNear ? expected : found, expected, `${key} ${JSON.stringify(step)}`);
      }
    }
  }

  get #fleet(): FleetCircuits {
    const { context } = this.gear as unknown as { context: { reporter: { fleet: FleetCircuits } } };
    return context.reporter.fleet;
  }

  async #publish(given: Json): Promise<void> {
    const {
      state = "closed",
      pace,
      ...more
    } = JSON.parse(JSON.stringify(given)) as { state?: string; pace: Json } & Json;
    const hash = (credential: string): string => new Credentials(keyOf(KEY)).sharedOf(callerOf({ credential }));
    const at = (t: number): string => new Date((this.clock.wall() - this.clock.now() + t) * 1000).toISOString();
    const limits = (pace["limits"] as Json[]).map((limit) => ({
      ...limit,
      credential: hash(limit["credential"] as string),
      until: at(limit["until"] as number),
      ...("paused_until" in limit ? { paused_until: at(limit["paused_until"] as number) } : {}),
    }));
    await this.gateway.publish(TOOL, state, { ...more, pace: { ...pace, limits } });
  }

  #take(answer: Permit | Rejection): void {
    this.#waiting -= 1;
    if (answer.allowed) {
      this.#passes += 1;
      answer.success();
    } else {
      this.#refused += 1;
      this.#refusal = answer;
    }
  }

  async #look(counts: boolean): Promise<Json> {
    const pace = this.gear.status().paces[TOOL];
    const { text, retryAfterS, source } = this.#refusal ?? {};
    return {
      passes: this.#passes,
      refused: this.#refused,
      waiting: this.#waiting,
      wait_s: [...this.clock.timers.values()].at(-1)! - this.clock.now(),
      share: pace?.share ?? null,
      counted: [pace?.waited, pace?.refused],
      waited_s: pace?.waitedS,
      open: this.gear.isOpen(TOOL),
      text,
      source,
      retry_after_s: retryAfterS,
      ...(counts ? { asked: await this.#asked() } : {}),
    };
  }

  async #asked(): Promise<number> {
    const said = (await this.gateway.events(TOOL)).map(
      ({ metadata, status }) => (metadata as Json | undefined)?.["asked"] ?? (status === "rejected" ? 0 : 1),
    );
    return said.reduce<number>((sum, each) => sum + (each as number), 0);
  }
}

function isUnreadable(text: string): boolean {
  try {
    return readView(JSON.parse(text)) === null;
  } catch {
    return true;
  }
}

describe("calls by the rate limits that the fleet keeps, by the scenarios that the Python client passes too", () => {
  for (const scenario of (JSON.parse(readFileSync(FILE, "utf8")) as { scenarios: Scenario[] }).scenarios) {
    it(`${scenario.id}: ${scenario.title}`, async () => {
      const player = new Player();
      await player.gear.ready();
      for (const step of scenario.steps) {
        await player.play(step);
      }
      await player.gateway.close();
    });
  }
});

/** Return a gateway and a client whose tool has a limit. Time passes. */
async function limited(calls: number, periodS: number, waitS: number, more: Json = {}): Promise<Place> {
  const gateway = new InMemoryGateway();
  const gear = gateway.gear({ clock: SYSTEM_CLOCK, ...more });
  await gear.ready();
  const rate = calls / periodS;
  const until = new Date(Math.floor(Date.now() / 1000) * 1000).toISOString();
  const limits = [{ credential: "", rate, granted: rate, period_s: periodS, asked: 0, until }];
  await gateway.publish(TOOL, "closed", { active_processes: 1, pace: { mode: "enforce", wait_s: waitS, limits } });
  return { gateway, gear };
}
interface Place {
  readonly gateway: InMemoryGateway;
  readonly gear: Switchgear;
}

describe("a client of a tool whose limit is kept", () => {
  it("waits for its turn, and its event says how long", async () => {
    const { gateway, gear } = await limited(10, 1, 5);
    const began = performance.now();
    const found = await Promise.all(Array.from({ length: 6 }, (_, number) => gear.call(TOOL, () => number)));
    const tookMs = performance.now() - began;
    assert.deepEqual(found, [0, 1, 2, 3, 4, 5]);
    assert.ok(tookMs > 400 && tookMs < 5_000, `${tookMs} ms`);
    const events = await gateway.events(TOOL);
    const waitedMs = events.map(({ metadata }) => (metadata as Json | undefined)?.["waited_ms"] ?? 0) as number[];
    assert.ok(Math.max(...waitedMs) > 400, String(waitedMs));
    assert.ok(events.every(({ execution_time_ms: ms }) => ms === undefined || (ms as number) < 400));
    const asked = events.filter(({ status }) => status === "rejected").map(({ metadata }) => metadata as Json);
    assert.deepEqual(asked[0], { refused: 0, refused_by: "pace", asked: 2 });
    assert.equal(gear.status().paces[TOOL]!.waited, 5);
    await gateway.close();
  });

  it("is refused with words for a model and the time, and nobody calls the tool although all its fallbacks are down", async () => {
    const { gateway, gear } = await limited(1, 60, 0, { fallbacks: { [TOOL]: "archive" } });
    let made = 0;
    const search = gear.guard(TOOL, () => (made += 1));
    gear.guard("archive", () => -1);
    assert.equal(await search(), 1);
    assert.equal(await search(), -1, "a fallback serves the caller");
    await gateway.openCircuit("archive");
    const error = await search().catch((thrown: unknown) => thrown);
    assert.ok(error instanceof CircuitOpenError);
    assert.match(
      error.text,
      /^The tool search was not called: its rate limit is used up\. Do not call it within the next 60 s\.$/,
    );
    assert.ok(isRefusal(error.text));
    assert.equal(error.rejection.reason, "rate limit: 1 calls per 60 s, shared by 1 processes");
    const { class: kind, code, retryable, retryNotBefore } = toolFailure(error.rejection, "id", 1_000);
    assert.deepEqual([kind, code, retryable], ["reliability", "paced", true]);
    assert.ok((retryNotBefore as number) > 1_059_000);
    assert.deepEqual(readToolFailure({ [META_KEY]: { class: kind, code } }), IGNORE);
    assert.equal(made, 1);
    assert.deepEqual(gear.available([TOOL]), [TOOL], "the tool works");
    await gateway.close();
  });

  it("gives the turn back of a call that isn't made", async () => {
    const { gateway, gear } = await limited(1, 60, 0);
    for (let time = 0; time < 5; time += 1) {
      (await gear.permit(TOOL)).release();
    }
    (await gear.permit(TOOL)).success();
    assert.equal((await gear.tryAcquire(TOOL)).allowed, false);
    await gateway.close();
  });

  it("opens no circuit for too many calls, and tells the fleet with which credential they were", async () => {
    const { gateway, gear } = await limited(100, 1, 5, { parametersKey: KEY });
    for (let time = 0; time < 12; time += 1) {
      (await gear.permit(TOOL, { credential: "token" })).failure("too many", "rate_limited");
    }
    assert.equal(gear.isOpen(TOOL), false);
    const hash = new Credentials(keyOf(KEY)).sharedOf(callerOf({ credential: "token" }));
    const events = await gateway.events(TOOL);
    assert.deepEqual([...new Set(events.map(({ credential }) => credential))], [hash]);
    await gateway.close();
  });

  it("has no hash of a credential in its events without a common key", async () => {
    const { gateway, gear } = await limited(100, 1, 5);
    (await gear.permit(TOOL, { credential: "token" })).failure("no", "auth");
    assert.ok((await gateway.events(TOOL)).every((event) => !("credential" in event)));
    await gateway.close();
  });

  it("takes no impossible key", () => {
    const gateway = new InMemoryGateway();
    for (const parametersKey of ["", "x".repeat(65), new Uint8Array(0), 5 as unknown as string]) {
      assert.throws(() => gateway.gear({ parametersKey }), /parametersKey/);
    }
  });
});
