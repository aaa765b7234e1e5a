import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import { CircuitOpenError, Switchgear, type CallerIds } from "../src/index.js";
import { inSeconds, record, TestGateway, until } from "./support/gateway.js";

const FETCH = "mcp:fetch:fetch";
const DEAD = { url: "https://dead.org/x" };
const GOOD = { url: "https://good.org/y" };

class Refused extends Error {
  readonly code = "ECONNREFUSED";
}

function fetcher(gear: Switchgear): (given: { url: unknown }) => Promise<string> {
  return gear.guard(FETCH, async (given: { url: unknown }) => {
    if (String(given.url).includes("dead")) {
      throw new Refused("no route");
    }
    return "page";
  });
}

async function fails(
  fetch: (given: { url: unknown }) => Promise<string>,
  times = 2,
  given: { url: unknown } = DEAD,
): Promise<void> {
  for (let time = 0; time < times; time += 1) {
    await assert.rejects(fetch(given), Refused);
  }
}

function refusalOf(error: unknown): CircuitOpenError {
  assert.ok(error instanceof CircuitOpenError);
  return error;
}

describe("a policy with a target", () => {
  const local = (): Switchgear =>
    Switchgear.local({ localPolicies: { consecutive_failures: 2, target: "url.host" }, onWarning: () => {} });

  it("refuses one dead site, and the tool stays", async () => {
    const gear = local();
    const fetch = fetcher(gear);
    await fails(fetch);
    await assert.rejects(fetch(DEAD), (error) => {
      const { rejection, text } = refusalOf(error);
      assert.deepEqual([rejection.tool, rejection.target, rejection.scope], [FETCH, "dead.org", "target"]);
      assert.match(text, /^The tool mcp:fetch:fetch is unavailable for dead\.org \(circuit open\)\./);
      return true;
    });
    assert.equal(await fetch(GOOD), "page");
    assert.equal(gear.notice(), "");
    assert.equal(gear.isOpen(FETCH), false);
    assert.equal(gear.isOpen(FETCH, { target: "dead.org" }), true);
    assert.deepEqual(gear.available([FETCH]), [FETCH]);
  });

  it("counts a call without a readable target for the tool", async () => {
    const gear = local();
    const fetch = fetcher(gear);
    await fails(fetch, 2, { url: "dead link" });
    await assert.rejects(fetch({ url: "another dead link" }), CircuitOpenError);
    assert.equal(await fetch(GOOD), "page");
  });

  it("counts an answer about a target by its text, and never for the server", async () => {
    const gear = local();
    const answer = { content: [{ type: "text", text: "connect ECONNREFUSED 10.0.0.1:80" }], isError: true };
    for (const host of ["a", "a", "b", "c", "d", "e", "f"]) {
      const ask = gear.guard(host === "f" ? "mcp:fetch:head" : FETCH, async (_given: { url: string }) => answer);
      await ask({ url: `https://${host}.dead.org/` });
    }
    assert.equal(gear.isOpen(FETCH, { target: "a.dead.org" }), true);
    assert.equal(gear.isOpen(FETCH, { target: "b.dead.org" }), false);
    assert.equal(gear.isOpen("mcp:fetch:other"), false);
  });

  it("takes a target that the caller names, and the arguments of a dispatcher", async () => {
    const gear = local();
    const ids: CallerIds = { target: "dead.org" };
    for (let time = 0; time < 2; time += 1) {
      const permit = await gear.tryAcquire(FETCH, ids);
      assert.ok(permit.allowed);
      permit.failure(new Refused("no"));
    }
    assert.equal((await gear.tryAcquire(FETCH, ids)).allowed, false);
    const dispatch = gear.guard(FETCH, async (_call: { name: string; arguments: { url: string } }) => "page");
    await assert.rejects(dispatch({ name: "fetch", arguments: DEAD }), CircuitOpenError);
    assert.equal(await dispatch({ name: "fetch", arguments: GOOD }), "page");
  });

  it("is off by default", async () => {
    const gear = Switchgear.local({ localPolicies: { consecutive_failures: 2 }, onWarning: () => {} });
    const fetch = fetcher(gear);
    await fails(fetch);
    await assert.rejects(fetch(GOOD), (error) => refusalOf(error).rejection.target === "");
  });
});

describe("the target of the fleet's record", () => {
  let gateway: TestGateway;
  let gear: Switchgear;
  const split = { target: "url.host" };

  beforeEach(async () => {
    gateway = await new TestGateway().start();
    gear = new Switchgear({ url: gateway.url, probeWaitS: 60, onWarning: () => {} });
    await gear.ready(60);
  });
  afterEach(async () => {
    await gear.close(0);
    await gateway.stop();
  });

  it("splits the calls of every process, and refuses a site alone", async () => {
    const fetch = fetcher(gear);
    gateway.publish(record(FETCH, "closed", 1, split));
    gateway.publish(
      record(FETCH, "open", 2, {
        circuit_id: `${FETCH}@dead.org`,
        scope: "target",
        open_until: inSeconds(60),
        ...split,
      }),
    );
    await until(() => gear.isOpen(FETCH, { target: "dead.org" }), "the record arrives");
    await assert.rejects(fetch(DEAD), (error) => refusalOf(error).rejection.target === "dead.org");
    assert.equal(await fetch(GOOD), "page");
    assert.equal(gear.notice(), "");
    await gear.flush(60);
    const taken = gateway.executions.filter((event) => event["tool_name"] === FETCH);
    assert.deepEqual(
      taken.map((event) => [event["status"], event["target"]]),
      [
        ["rejected", "dead.org"],
        ["success", "good.org"],
      ],
    );
  });

  it("lets of the tool's own circuit only commands hold for its targets", async () => {
    const fetch = fetcher(gear);
    gateway.publish(record(FETCH, "open", 2, { open_until: inSeconds(60), ...split }));
    await until(() => gear.isOpen(FETCH), "the record arrives");
    assert.equal(await fetch(GOOD), "page");
    gateway.publish(record(FETCH, "forced_open", 3, split));
    await until(() => gear.isOpen(FETCH, { target: "good.org" }), "the command arrives");
    await assert.rejects(fetch(GOOD), CircuitOpenError);
  });

  it("keeps a tool that is named like a target apart", async () => {
    gateway.publish(
      record(`${FETCH}@dead.org`, "open", 2, { circuit_id: `${FETCH}%40dead.org`, open_until: inSeconds(60) }),
    );
    await until(() => gear.isOpen(`${FETCH}@dead.org`), "the record arrives");
    assert.equal(gear.isOpen(FETCH, { target: "dead.org" }), false);
  });
});
