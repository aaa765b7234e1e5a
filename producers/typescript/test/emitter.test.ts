import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import { Switchgear, type SwitchgearOptions } from "../src/index.js";
import { inSeconds, record, TestGateway, until, type Json } from "./support/gateway.js";
import { PACKAGE } from "./support/scenarios.js";

let gateway: TestGateway;
let gear: Switchgear;
let warned: string[];

beforeEach(async () => {
  gateway = await new TestGateway().start();
  warned = [];
});
afterEach(async () => {
  await gear?.close(0);
  await gateway.stop();
});

async function connect(options: Partial<SwitchgearOptions> = {}): Promise<Switchgear> {
  gear = new Switchgear({
    url: gateway.url,
    token: "t",
    service: "planner",
    onWarning: (message) => void warned.push(message),
    ...options,
  });
  await gear.ready(60);
  return gear;
}

function batch(place: number): { ids: unknown[]; resent: string | undefined } {
  const { body, headers } = gateway.of("/v1/executions")[place]!;
  const ids = body.split("\n").map((line) => (JSON.parse(line) as Json)["metric_id"]);
  return { ids, resent: headers["switchgear-resent"] as string | undefined };
}

async function calls(count: number): Promise<void> {
  await Promise.all(Array.from({ length: count }, (_, at) => gear.call(`tool${at}`, () => at)));
}

describe("events", () => {
  it("each call is one event with its caller, cost, class and redacted message", async () => {
    await connect();
    await gear.call("good", () => ({ used: 3 }), {
      userId: "u",
      sessionId: "s",
      requestId: "r",
      usage: ({ used }) => ({ inputTokens: used, costUsd: 0.5 }),
    });
    const limited = Object.assign(new Error("api_key=abcdef slow down"), {
      status: 429,
      headers: new Headers({ "retry-after": "7" }),
    });
    await assert.rejects(gear.call("bad", () => Promise.reject(limited)));
    await assert.rejects(gear.call("stopped", () => Promise.reject(new DOMException("", "AbortError"))));
    assert.ok(await gear.flush(60));
    const [good, bad, stopped] = gateway.executions as [Json, Json, Json];
    assert.match(good["metric_id"] as string, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    assert.match(good["emitter_id"] as string, /^planner@js-/);
    assert.ok(Math.abs(Date.parse(good["recorded_at"] as string) - Date.now()) < 5000);
    const { tool_name, status, user_id, session_id, request_id, input_tokens, cost_usd, generation, service } = good;
    assert.deepEqual([tool_name, status, user_id, session_id, request_id], ["good", "success", "u", "s", "r"]);
    assert.deepEqual([input_tokens, cost_usd, generation, service], [3, 0.5, 0, "planner"]);
    assert.deepEqual(
      [bad["status"], bad["error_class"], bad["retry_after_s"], bad["error_message"]],
      ["error", "rate_limited", 7, "api_key=[redacted] slow down"],
    );
    assert.deepEqual([stopped["status"], stopped["error_class"]], ["cancelled", "cancelled"]);
    const sent = gateway.of("/v1/executions")[0]!.headers;
    assert.deepEqual([sent.authorization, sent["content-type"]], ["Bearer t", "application/x-ndjson"]);
  });

  it("refusals of a loop are one event a second, with their number", async () => {
    await connect({ localPolicies: { consecutive_failures: 1 } });
    const began = Date.now();
    await assert.rejects(gear.call("search", () => Promise.reject(new Error("broken"))));
    for (let time = 0; time < 50; time += 1) {
      await assert.rejects(gear.call("search", () => 1));
    }
    await gear.flush(60);
    const rejected = gateway.executions.filter((each) => each["status"] === "rejected");
    assert.ok(rejected.length <= 2 + (Date.now() - began) / 1000, String(rejected.length));
    assert.equal(
      rejected.reduce((sum, each) => sum + ((each["metadata"] as Json)["refused"] as number), 0),
      50,
    );
    const { refused_by, state, cause } = rejected[0]!["metadata"] as Json;
    assert.deepEqual([refused_by, state, (cause as Json)["rule"]], ["local", "open", "consecutive_failures"]);
  });

  it("a fallback's event says that it served another caller", async () => {
    await connect({ localPolicies: { consecutive_failures: 1 } });
    await assert.rejects(gear.call("first", () => Promise.reject(new Error("broken"))));
    gear.guard("second", () => 2);
    assert.equal(await gear.guard("first", () => 1, { fallback: "second" })(), 2);
    await gear.flush(60);
    const served = gateway.executions.find((each) => each["tool_name"] === "second");
    const refused = gateway.executions.find((each) => each["status"] === "rejected");
    assert.equal(served!["served_by"], "fallback");
    assert.deepEqual([refused!["served_by"], refused!["fallback_tool"]], ["fallback", "second"]);
  });

  it("go in batches of a bounded size", async () => {
    await connect();
    await calls(450);
    assert.ok(await gear.flush(60));
    assert.equal(gateway.executions.length, 450);
    const sizes = gateway.of("/v1/executions").map((_, place) => batch(place).ids.length);
    assert.ok(sizes.every((size) => size <= 200) && sizes.length <= 6, sizes.join());
    assert.equal(gear.status().emitter!.sent, 450);
  });

  it("a message cut through an emoji and metadata that JSON can't hold arrive all the same", async () => {
    await connect();
    const permit = await gear.permit("odd");
    permit.failure(new Error("x".repeat(1998) + "\u{1F600}\u{1F600}"), null, { metadata: { big: 1n } });
    await assert.rejects(gear.call("path", () => Promise.reject(new Error("C:\\\\ud83d is a folder, \ud83d is not"))));
    await gear.flush(60);
    const [odd, path] = gateway.executions as [Json, Json];
    assert.match(odd["error_message"] as string, /^x{1998}\?…$/);
    assert.match((odd["metadata"] as Json)["unreadable"] as string, /BigInt/);
    assert.equal(path["error_message"], "C:\\\\ud83d is a folder, ? is not");
  });

  it("are sent soon without flush", async () => {
    await connect();
    await calls(1);
    await until(() => gateway.executions.length === 1, "the event arrives");
  });

  it("a call never waits for them, and the oldest are dropped when the buffer is full", async () => {
    await connect({ bufferSize: 10 });
    gateway.nextExecutions.push("hang");
    await calls(1);
    await until(() => gateway.of("/v1/executions").length === 1, "the first batch hangs");
    await calls(30);
    assert.deepEqual([gear.status().emitter!.buffered, gear.status().emitter!.dropped], [11, 20]);
    assert.match(warned.join(), /the buffer of events is full/);
  });
});

describe("batches that fail", () => {
  it("a batch whose answer is lost is sent again as it was, and marked", async () => {
    await connect();
    gateway.nextExecutions.push("cut", { status: 500 });
    await calls(2);
    assert.ok(await gear.flush(60));
    assert.deepEqual(
      [0, 1, 2].map((place) => batch(place).resent),
      [undefined, "true", "true"],
    );
    assert.deepEqual(batch(0).ids, batch(2).ids);
    assert.equal(gateway.executions.length, 2);
  });

  it("back-pressure is obeyed: the batch is sent again after Retry-After, unmarked", async () => {
    await connect();
    gateway.nextExecutions.push({ status: 429, headers: { "retry-after": "1" } });
    const began = Date.now();
    await calls(1);
    await until(() => gateway.executions.length === 1, "the batch arrives");
    assert.ok(Date.now() - began >= 1000);
    assert.equal(batch(1).resent, undefined);
  });

  it("of a partly unknown batch only the unknown events are sent again, marked", async () => {
    await connect();
    gateway.nextExecutions.push({ status: 503, body: { unknown: [1] } });
    await calls(3);
    assert.ok(await gear.flush(60));
    assert.deepEqual(batch(1), { ids: [batch(0).ids[1]], resent: "true" });
    assert.equal(gear.status().emitter!.sent, 3);
  });

  it("a batch that is too large is halved", async () => {
    await connect();
    gateway.nextExecutions.push({ status: 413 });
    await calls(5);
    assert.ok(await gear.flush(60));
    assert.equal(gateway.executions.length, 5);
    assert.equal(new Set(gateway.executions.map((each) => each["metric_id"])).size, 5);
  });

  it("events wait while the token is wrong", async () => {
    await connect();
    gateway.nextExecutions.push({ status: 401, body: { title: "Unauthorized", detail: "the token is revoked" } });
    await calls(1);
    await until(() => gear.status().emitter!.lastError !== null, "the answer arrives");
    assert.match(gear.status().emitter!.lastError!, /401\. Unauthorized: the token is revoked/);
    assert.ok(await gear.flush(60));
    assert.equal(gateway.executions.length, 1);
  });

  it("what the gateway says about this process is a warning", async () => {
    await connect();
    const said = "planner@js-1: its clock is 7 min ahead of the broker's.";
    gateway.nextExecutions.push({
      status: 200,
      body: { accepted: 1, rejected: [], warnings: [said, 7, "x".repeat(1000)] },
    });
    await calls(1);
    assert.ok(await gear.flush(60));
    assert.deepEqual(
      warned.filter((each) => each.startsWith("the gateway says")),
      [`the gateway says: ${said}`, `the gateway says: ${"x".repeat(500)}`],
    );
  });

  it("events that the gateway rejects are counted, with a warning", async () => {
    await connect();
    gateway.nextExecutions.push(
      { status: 200, body: { accepted: 1, rejected: [{ index: 0, reason: "no tool" }] } },
      { status: 400 },
    );
    await calls(2);
    assert.equal(await gear.flush(60), false);
    await calls(1);
    assert.equal(await gear.flush(60), false);
    assert.deepEqual([gear.status().emitter!.sent, gear.status().emitter!.dropped], [1, 2]);
    assert.match(warned.join(), /rejected some events.*refused a batch/);
  });

  it("flush gives up in time and says so, and the events arrive when the gateway is back", async () => {
    await connect();
    await gateway.stop();
    await calls(3);
    const began = Date.now();
    assert.equal(await gear.flush(0.3), false);
    assert.ok(Date.now() - began < 30_000);
    await gateway.start();
    assert.ok(await gear.flush(60));
    assert.equal(gateway.executions.length, 3);
  });
});

describe("the end of a process", () => {
  it("a Node process ends by itself although the stream is open, and its events arrive", async () => {
    await connect();
    const script = `
      import { Switchgear } from ${JSON.stringify(join(PACKAGE, "dist", "index.js"))};
      const gear = new Switchgear({ url: ${JSON.stringify(gateway.url)}, service: "script", startWaitS: 60 });
      console.log(await gear.call("search", () => "found"), gear.status().follower.connected);`;
    const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
      stdio: ["ignore", "pipe", "inherit"],
      timeout: 120_000,
    });
    let output = "";
    child.stdout.on("data", (part: Buffer) => (output += part.toString()));
    const code = await new Promise((resolve) => child.on("close", resolve));
    assert.equal(code, 0);
    assert.equal(output, "found true\n");
    assert.deepEqual(
      gateway.executions.map((each) => [each["tool_name"], each["service"]]),
      [["search", "script"]],
    );
  });

  it("a process whose gateway is away ends too", async () => {
    await connect();
    const { url } = gateway;
    await gateway.stop();
    const script = `
      import { Switchgear } from ${JSON.stringify(join(PACKAGE, "dist", "index.js"))};
      const gear = new Switchgear({ url: ${JSON.stringify(url)}, onWarning: () => {} });
      await gear.call("search", () => 1);`;
    const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
      stdio: "inherit",
      timeout: 120_000,
    });
    assert.equal(await new Promise((resolve) => child.on("close", resolve)), 0);
    await gateway.start();
  });

  it("a flush with a long limit keeps the process alive for no longer than it takes", async () => {
    await connect();
    const script = `
      import { Switchgear } from ${JSON.stringify(join(PACKAGE, "dist", "index.js"))};
      const gear = new Switchgear({ url: ${JSON.stringify(gateway.url)}, startWaitS: 60 });
      await gear.call("probed", () => 1);
      console.log(await gear.flush(3600));`;
    gateway.circuits["probed"] = record("probed", "open", 1, { open_until: inSeconds(-1) });
    gateway.decide = () => ({ status: 200, body: { allowed: true, permit: "p", probe: true, generation: 2 } });
    const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
      stdio: ["ignore", "pipe", "inherit"],
      timeout: 120_000,
    });
    let output = "";
    child.stdout.on("data", (part: Buffer) => (output += part.toString()));
    assert.equal(await new Promise((resolve) => child.on("close", resolve)), 0);
    assert.equal(output, "true\n");
    assert.equal(gateway.of("/v1/outcome").length, 1);
  });

  it("close sends what waits, and later calls go through the process's own breakers", async () => {
    await connect();
    await calls(2);
    await gear.close();
    assert.equal(gateway.executions.length, 2);
    assert.equal(await gear.call("search", () => 1), 1);
    await until(() => gateway.openStreams === 0, "the stream ends");
  });
});
