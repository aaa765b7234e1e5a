import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { familyFinder } from "../src/families.js";
import { messageOf, NoticeBoard, noticeOf } from "../src/prompts/notice.js";
import { DUE, REFUSES, ToolLists, UP, type Condition, type ToolListMode } from "../src/tool-list.js";
import { Switchgear } from "../src/switchgear.js";
import { TestClock } from "./support/clock.js";
import { REPOSITORY } from "./support/scenarios.js";

interface Scenario {
  readonly id: string;
  readonly title: string;
  readonly config: { readonly mode: ToolListMode; readonly hide_after_s: number };
  readonly steps: readonly Step[];
}
interface Step {
  readonly t: number;
  readonly op: "list" | "text";
  readonly seen: Readonly<Record<string, string>>;
  readonly own?: Readonly<Record<string, string>>;
  readonly session?: string;
  readonly alone?: readonly string[];
  readonly offered: readonly string[];
  readonly asks?: readonly string[];
  readonly changes?: number;
  readonly place: "notice" | "message";
  readonly down: readonly string[];
  readonly text: string;
}

const FILE = join(REPOSITORY, "tests", "acceptance", "tool_list_scenarios.json");
const SEEN: Readonly<Record<string, Condition>> = {
  up: UP,
  refuses: REFUSES,
  due: DUE,
  held: { down: true, refuses: false, probe: "held" },
  probed: { down: true, refuses: false, probe: "" },
};

function play({ config, steps }: Scenario): void {
  let now = 0;
  const lists = new ToolLists(config.mode, config.hide_after_s, () => now);
  const board = new NoticeBoard({ now: () => now, wall: () => now }, familyFinder(""));
  for (const step of steps) {
    now = step.t;
    if (step.op === "text") {
      const tools = step.down.map((tool) => ({ tool, instead: [], family: false }));
      const place = JSON.stringify([step.place, step.session]);
      const [before, after] = board.settled(place, { tools, everything: "" });
      assert.equal(step.place === "notice" ? noticeOf(after.tools) : messageOf(before, after), step.text);
      continue;
    }
    const asked: string[] = [];
    const names = Object.keys(step.seen);
    const offered = lists.offered(
      names,
      { name: step.session ?? "", own: step.own !== undefined },
      (tool, own) => SEEN[(own ? step.own! : step.seen)[tool]!]!,
      (tool) => {
        asked.push(tool);
        return step.alone?.includes(tool) ?? false;
      },
    );
    assert.deepEqual(
      names.filter((_, position) => offered[position]),
      step.offered,
      JSON.stringify(step),
    );
    assert.deepEqual(asked, step.asks ?? asked);
    assert.equal(lists.changes, step.changes ?? lists.changes);
  }
}

describe("what a model sees, by the scenarios that the Python client passes too", () => {
  for (const scenario of (JSON.parse(readFileSync(FILE, "utf8")) as { scenarios: Scenario[] }).scenarios) {
    it(`${scenario.id}: ${scenario.title}`, () => play(scenario));
  }
});

describe("a client", () => {
  const failing = { localPolicies: { consecutive_failures: 1 } };
  const fail = (gear: { call: Switchgear["call"] }, tool: string): Promise<unknown> =>
    assert.rejects(gear.call(tool, () => Promise.reject(new TypeError("fetch failed"))));

  it("offers all tools by default, and tells a conversation once that one is down and once that it may be called", async () => {
    const clock = new TestClock();
    const gear = Switchgear.local({ ...failing, clock });
    await fail(gear, "search");
    assert.deepEqual(gear.available(["search", "mail"]), ["search", "mail"]);
    const said = gear.outageMessage({ sessionId: "a" });
    assert.match(said, /^\[tool status\] These tools are unavailable: search\. /);
    assert.deepEqual([gear.outageMessage({ sessionId: "a" }), gear.outageMessage({ sessionId: "b" })], ["", said]);
    gear.forgetTold("a");
    assert.equal(gear.outageMessage({ sessionId: "a" }), said);
    clock.advance(61);
    await gear.call("search", () => 1);
    assert.equal(gear.outageMessage({ sessionId: "a" }), "[tool status] These tools may be called again: search.");
    assert.equal(gear.status().toolListChanges, 0);
  });

  it("hides a tool that stays down, offers it for five minutes when nobody else can find out, and counts the changes", async () => {
    const clock = new TestClock();
    const gear = Switchgear.local({ ...failing, clock, toolList: "hide", hideAfterS: 600 });
    await fail(gear, "search");
    const seen: [number, boolean][] = [];
    for (let second = 0; second <= 1_600; second += 10) {
      const offered = gear.available(["search", "mail"]).includes("search");
      if (seen.at(-1)?.[1] !== offered) {
        seen.push([second, offered]);
      }
      clock.advance(10);
    }
    assert.deepEqual(seen, [
      [0, true],
      [600, false],
      [1_200, true],
      [1_500, false],
    ]);
    assert.equal(gear.status().toolListChanges, 3);
  });

  it("gives a session that begins the list of that moment", async () => {
    const clock = new TestClock();
    const gear = Switchgear.local({ ...failing, clock, toolList: "new_sessions" });
    await fail(gear, "search");
    assert.deepEqual(gear.available(["search"], { sessionId: "a" }), []);
    clock.advance(61);
    await gear.call("search", () => 1);
    assert.deepEqual(gear.available(["search"], { sessionId: "a" }), []);
    assert.deepEqual(gear.available(["search"], { sessionId: "b" }), ["search"]);
    assert.deepEqual(gear.available(["search"]), ["search"]);
  });

  it("tells the session that its limit is reached, once", async () => {
    const gear = Switchgear.local();
    const session = gear.session({ maxCalls: 1 });
    await session.call("a", () => 1);
    assert.equal(
      session.outageMessage(),
      "[tool status] No tool can be called any more in this session. Finish with what you have.",
    );
    assert.equal(session.outageMessage(), "");
  });

  it("takes no impossible option", () => {
    assert.throws(() => Switchgear.local({ toolList: "never" as ToolListMode }), /toolList is never/);
    assert.throws(() => Switchgear.local({ hideAfterS: -1 }), /hideAfterS is -1/);
  });
});
