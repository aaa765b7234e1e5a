/** A call that hangs is a slow call of its circuits before it ends. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Switchgear, type LocalOptions, type Permit } from "../src/index.js";
import { TestClock } from "./support/clock.js";

const SLOW = { slow_call_duration_threshold_ms: 200, slow_call_rate_threshold: 0.5 };
const TWENTY = { ...SLOW, minimum_number_of_calls: 20 };
const FIRST = { ...SLOW, minimum_number_of_calls: 1 };

function make(localPolicies: LocalOptions["localPolicies"]): { gear: Switchgear; clock: TestClock } {
  const clock = new TestClock();
  return { gear: Switchgear.local({ clock, localPolicies }), clock };
}

async function permitted(gear: Switchgear, tool = "t"): Promise<Permit> {
  const permit = await gear.tryAcquire(tool);
  assert.ok(permit.allowed);
  return permit;
}

describe("a call that hangs", () => {
  it("opens the circuit with nineteen others within twice the threshold, and once", async () => {
    const { gear, clock } = make(TWENTY);
    const permits = await Promise.all(Array.from({ length: 20 }, () => permitted(gear)));
    clock.advance(0.199);
    assert.equal(gear.isOpen("t"), false);
    clock.advance(0.201);
    const refusal = await gear.tryAcquire("t");
    assert.ok(!refusal.allowed);
    assert.equal(refusal.cause?.rule, "slow_call_rate");
    clock.advance(3);
    permits.forEach((permit) => permit.success());
    assert.equal(gear.isOpen("t"), true);
  });

  it("is counted once, however often circuits are asked, and at its end if nobody asked", async () => {
    const { gear, clock } = make({ ...SLOW, minimum_number_of_calls: 3 });
    const first = await permitted(gear);
    for (let time = 0; time < 5; time += 1) {
      clock.advance(0.3);
      assert.equal(gear.isOpen("t"), false);
    }
    first.success();
    const second = await permitted(gear);
    clock.advance(1);
    second.success();
    assert.equal(gear.isOpen("t"), false);
    const third = await permitted(gear);
    clock.advance(1);
    assert.equal(gear.isOpen("t"), true);
    third.failure(new Error("late"));
  });

  it("is not overdue for a circuit without a rule for slow calls, nor after it was given back", async () => {
    const { gear, clock } = make({ failure_rate_threshold: 0.1, minimum_number_of_calls: 1 });
    await permitted(gear);
    clock.advance(3600);
    assert.equal(gear.isOpen("t"), false);
    const other = make(FIRST);
    (await permitted(other.gear)).release();
    other.clock.advance(3600);
    assert.equal(other.gear.isOpen("t"), false);
  });

  it("opens the circuit again if it is the probe", async () => {
    const { gear, clock } = make({ ...SLOW, consecutive_failures: 1, wait_duration_in_open_state_s: 10 });
    (await permitted(gear)).failure(Object.assign(new Error("no route"), { code: "ECONNREFUSED" }));
    clock.advance(10);
    const probe = await permitted(gear);
    clock.advance(0.2);
    const refusal = await gear.tryAcquire("t");
    assert.ok(!refusal.allowed);
    assert.equal(refusal.cause?.rule, "probe_slow");
    probe.success();
    assert.equal(gear.isOpen("t"), true);
  });

  it("is overdue by the wait for one item if it is a stream", async () => {
    const { gear, clock } = make(FIRST);
    const opened: boolean[] = [];
    const stream = gear.guardStream("t", async function* () {
      for (const seconds of [0.15, 0.15, 0.25]) {
        clock.advance(seconds);
        opened.push(gear.isOpen("t"));
        yield seconds;
      }
    });
    for await (const _ of stream()) {
      clock.advance(1); // the reader is slow, and that is not the tool's fault
      opened.push(gear.isOpen("t"));
    }
    assert.deepEqual(opened, [false, false, false, false, true, true]);
  });
});
