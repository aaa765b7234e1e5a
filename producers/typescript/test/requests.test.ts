import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import { promisify } from "node:util";
import { CircuitOpenError, Switchgear, type SwitchgearOptions } from "../src/index.js";
import { inSeconds, record, TestGateway, until, type Json } from "./support/gateway.js";
import { TestClock } from "./support/clock.js";
import { PACKAGE } from "./support/scenarios.js";

let gateway: TestGateway;
let clock: TestClock;
let warned: string[];
/** What the request waits for, before it ends. */
let work: Promise<unknown>[];

beforeEach(async () => {
  gateway = await new TestGateway().start();
  clock = new TestClock();
  clock.offset = Date.now() / 1000;
  warned = [];
  work = [];
});
afterEach(() => gateway.stop());

/** A client without a background. Its clock stands still unless a test moves it. */
function client(options: Partial<SwitchgearOptions> = {}): Switchgear {
  return new Switchgear({
    url: gateway.url,
    waitUntil: (promise) => void work.push(promise),
    onWarning: (message) => void warned.push(message),
    clock,
    ...options,
  });
}

async function endOfRequest(): Promise<void> {
  while (work.length > 0) await Promise.all(work.splice(0));
}

function arrived(): unknown[] {
  return gateway.executions.map((each) => each["tool_name"]);
}

describe("a client that works within requests alone", () => {
  it("each request sends its own events, and nothing is left open", async () => {
    const gear = client();
    for (const tool of ["first", "second"]) {
      await gear.call(tool, () => 1);
      await endOfRequest();
      assert.equal(gateway.executions.at(-1)!["tool_name"], tool);
    }
    assert.equal(gateway.openStreams, 0);
    assert.deepEqual(gear.status().emitter, { buffered: 0, sent: 2, dropped: 0, lastError: null });
  });

  it("a Node process waits for what waitUntil gets", async () => {
    const script = `
      import { Switchgear } from ${JSON.stringify(join(PACKAGE, "dist", "index.js"))};
      let work;
      const gear = new Switchgear({ url: ${JSON.stringify(gateway.url)}, waitUntil: (promise) => void (work = promise) });
      await gear.call("search", () => 1);
      console.log(await work);`;
    const args = ["--input-type=module", "-e", script];
    assert.equal(
      await promisify(execFile)(process.execPath, args, { timeout: 120_000 }).then(({ stdout }) => stdout),
      "true\n",
    );
    assert.deepEqual(arrived(), ["search"]);
  });

  it("a Node process waits for the circuits of its first call", async () => {
    gateway.greet = false;
    const script = `
      import { Switchgear } from ${JSON.stringify(join(PACKAGE, "dist", "index.js"))};
      const gear = new Switchgear({ url: ${JSON.stringify(gateway.url)}, startWaitS: 60, waitUntil: () => {} });
      await gear.call("search", () => 1);
      console.log(gear.status().mode);`;
    const done = promisify(execFile)(process.execPath, ["--input-type=module", "-e", script], { timeout: 120_000 });
    await until(() => gateway.openStreams === 1, "it waits for the circuits");
    await new Promise((resolve) => setTimeout(resolve, 300)); // as far away as a gateway may be
    gateway.send("snapshot", { circuits: {} });
    gateway.send("heartbeat", { fresh: true });
    assert.equal((await done).stdout, "fleet\n");
  });

  it("the calls of one request go together", async () => {
    const gear = client();
    for (const tool of ["a", "b", "c"]) await gear.call(tool, () => 1);
    await endOfRequest();
    assert.deepEqual(arrived(), ["a", "b", "c"]);
    assert.equal(gateway.of("/v1/executions").length, 1);
  });

  it("the end of a request reads the circuits if they are older than five seconds, and only what changed", async () => {
    const gear = client();
    gateway.circuits["search"] = record("search", "open", 1, { open_until: inSeconds(600) });
    await gear.call("search", () => 1);
    await endOfRequest();
    assert.equal(gear.status().mode, "fleet");
    await assert.rejects(
      gear.call("search", () => 1),
      CircuitOpenError,
    );
    await gear.flush();
    assert.equal(gateway.streamsOpened.length, 1);
    clock.advance(6);
    await gear.flush();
    assert.deepEqual(
      gateway.streamsOpened.map(({ headers }) => headers["last-event-id"]),
      [undefined, "c0"],
    );
  });

  it("the first call waits for the circuits as long as startWaitS says, parallel calls for one reading", async () => {
    const gear = client({ startWaitS: 60, clock: undefined });
    gateway.circuits["search"] = record("search", "open", 1, { open_until: inSeconds(600) });
    const calls = [1, 2, 3].map(() => gear.call("search", () => 1));
    for (const each of await Promise.allSettled(calls)) assert.equal(each.status, "rejected");
    assert.equal(gateway.streamsOpened.length, 1);
    assert.ok(await gear.ready());
    await endOfRequest();
  });

  it("a batch whose request has ended is sent again by another one, marked", async () => {
    const gear = client();
    gateway.nextExecutions.push("hang");
    await gear.call("lost", () => 1);
    assert.equal(await gear.flush(0.2), false);
    await gear.call("found", () => 1);
    assert.equal(await gear.flush(0.2), false);
    assert.deepEqual(arrived(), ["found"]);
    clock.advance(36);
    assert.equal(await gear.flush(60), true);
    assert.deepEqual(arrived(), ["found", "lost"]);
    assert.equal(gateway.of("/v1/executions").at(-1)!.headers["switchgear-resent"], "true");
  });

  it("a request to a gateway that is away tries once, and the next ones wait as it asks", async () => {
    const gear = client();
    gateway.nextExecutions.push({ status: 429, headers: { "retry-after": "7" } });
    await gear.call("search", () => 1);
    assert.equal(await gear.flush(), false);
    assert.equal(await gear.flush(), false);
    assert.equal(gateway.of("/v1/executions").length, 1);
    clock.advance(60);
    assert.equal(await gear.flush(), true);
    assert.deepEqual(arrived(), ["search"]);
  });

  it("a probe's outcome that was lost is delivered by the next request", async () => {
    const gear = client();
    gateway.circuits["search"] = record("search", "open", 1, { open_until: inSeconds(-1) });
    gateway.decide = () => ({
      status: 200,
      body: { allowed: true, permit: "p", probe: true, generation: 2, expires_in_s: 600 },
    });
    gateway.outcome = () => (gateway.of("/v1/outcome").length === 1 ? "hang" : { status: 204 });
    await gear.ready();
    await gear.call("search", () => 1);
    assert.equal(await gear.flush(0), false);
    clock.advance(12);
    assert.equal(await gear.flush(60), true);
    const said = gateway
      .of("/v1/outcome")
      .map(({ body, headers }) => [(JSON.parse(body) as Json)["permit"], headers["switchgear-resent"]]);
    assert.deepEqual(said, [
      ["p", undefined],
      ["p", "true"],
    ]);
  });

  it("a probe whose request has ended while it asked is asked for again", async () => {
    const gear = client({ probeWaitS: 30 });
    gateway.circuits["search"] = record("search", "open", 1, { open_until: inSeconds(-1) });
    let asked = 0;
    gateway.decide = () =>
      (asked += 1) === 1 ? "hang" : { status: 200, body: { allowed: true, permit: "p", probe: true, generation: 2 } };
    await gear.ready();
    const dead = gear.call("search", () => "dead");
    await until(() => asked === 1, "the first call asks");
    await assert.rejects(
      gear.call("search", () => "too early"),
      CircuitOpenError,
    );
    clock.advance(32);
    assert.equal(await gear.call("search", () => "found"), "found");
    await endOfRequest();
    await gateway.stop();
    assert.equal(await dead, "dead");
    await gateway.start();
  });

  it("without waitUntil and flush, a request sends when there are many events, and says what is missing", async () => {
    const agent = Object.getOwnPropertyDescriptor(globalThis, "navigator");
    Object.defineProperty(globalThis, "navigator", { value: { userAgent: "Cloudflare-Workers" }, configurable: true });
    try {
      const gear = client({ waitUntil: undefined, localPolicies: { mode: "forced_open" } });
      for (let tool = 0; tool < 150; tool += 1) await assert.rejects(gear.call(`refused-${tool}`, () => 1));
      assert.equal(gateway.openStreams, 0);
      const open = client({ waitUntil: undefined });
      for (let tool = 0; tool < 250; tool += 1) await open.call(`tool-${tool}`, () => 1);
      await until(() => gateway.executions.length >= 200, "the events arrive");
      assert.match(warned.join(), /events wait: call `ctx\.waitUntil\(gear\.flush\(\)\)`/);
      assert.ok(await gear.flush());
      assert.ok(await open.flush());
      assert.equal(gateway.executions.length, 400);
    } finally {
      if (agent === undefined) delete (globalThis as { navigator?: unknown }).navigator;
      else Object.defineProperty(globalThis, "navigator", agent);
    }
  });

  it("a waitUntil that throws never fails a call", async () => {
    const gear = client({
      waitUntil: () => {
        throw new Error("no request");
      },
    });
    assert.equal(await gear.call("search", () => 1), 1);
    assert.match(warned.join(), /waitUntil failed/);
    assert.ok(await gear.flush());
  });
});
