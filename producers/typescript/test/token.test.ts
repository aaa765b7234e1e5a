import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import { Switchgear, type SwitchgearOptions } from "../src/index.js";
import { TestGateway, until } from "./support/gateway.js";

let gateway: TestGateway;
let gear: Switchgear;

beforeEach(async () => {
  gateway = await new TestGateway().start();
});
afterEach(async () => {
  await gear.close(0);
  await gateway.stop();
});

function connect(options: Partial<SwitchgearOptions>): void {
  gear = new Switchgear({ url: gateway.url, onWarning: () => {}, ...options });
}

function tokens(): unknown[] {
  return gateway.of("/v1/executions").map(({ headers }) => headers.authorization);
}

describe("a token that a function returns", () => {
  it("is asked for once, also if it is a promise, and goes with every request", async () => {
    for (const make of [() => "t-1", async () => "t-1"]) {
      let asked = 0;
      connect({ token: () => ((asked += 1), make()) });
      await gear.ready(60);
      await gear.call("search", () => 1);
      assert.ok(await gear.flush(60));
      assert.equal(tokens().at(-1), "Bearer t-1");
      assert.equal(gateway.streamsOpened.at(-1)!.headers.authorization, "Bearer t-1");
      assert.equal(asked, 1);
      await gear.close();
    }
  });

  it("is asked for again when the gateway answers 401, and the request is made again", async () => {
    let asked = 0;
    connect({ token: () => `t-${(asked += 1)}` });
    await gear.ready(60);
    gateway.nextExecutions.push({ status: 401 });
    await gear.call("search", () => 1);
    assert.ok(await gear.flush(60));
    assert.deepEqual(tokens(), ["Bearer t-1", "Bearer t-2"]);
    assert.equal(gear.status().emitter!.lastError, null);
  });

  it("is asked for again when the stream answers 401", async () => {
    let asked = 0;
    gateway.refuseStreams = { status: 401 };
    connect({
      token: () => {
        asked += 1;
        if (asked === 2) gateway.refuseStreams = null;
        return `t-${asked}`;
      },
    });
    assert.ok(await gear.ready(60));
    assert.equal(gateway.streamsOpened.at(-1)!.headers.authorization, "Bearer t-2");
  });

  it("may be missing for a while: events wait, and no call fails", async () => {
    for (const fails of [() => "", () => "two words", () => Promise.reject(new Error("vault is away"))]) {
      let away = true;
      connect({ token: () => (away ? fails() : "t") });
      assert.equal(await gear.call("search", () => 1), 1);
      await until(() => gear.status().follower!.lastError !== null, "it fails");
      assert.match(gear.status().follower!.lastError!, /token function (failed: vault is away|returned no token)/);
      away = false;
      assert.ok(await gear.flush(60));
      await gear.close();
    }
    assert.equal(gateway.executions.length, 3);
  });
});

it("a redirect of the gateway is not followed: it would take the token elsewhere", async () => {
  gateway.refuseStreams = { status: 302, headers: { location: "http://127.0.0.1:1/" } };
  connect({ token: "t" });
  await gear.call("search", () => 1);
  await until(() => gear.status().follower!.lastError !== null, "it fails");
  assert.match(gear.status().follower!.lastError!, /redirect/);
});
