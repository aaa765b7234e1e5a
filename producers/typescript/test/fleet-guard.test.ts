import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import { CircuitOpenError, Switchgear, type SwitchgearOptions } from "../src/index.js";
import { inSeconds, record, TestGateway, until, type Answer, type Json } from "./support/gateway.js";

let gateway: TestGateway;
let gears: Switchgear[];
let warned: string[];

beforeEach(async () => {
  gateway = await new TestGateway().start();
  gears = [];
  warned = [];
});
afterEach(async () => {
  await Promise.all(gears.map((gear) => gear.close(0)));
  await gateway.stop();
});

function refused(gear: Switchgear, ...tools: string[]): string[] {
  return tools.filter((tool) => gear.isOpen(tool));
}

async function connect(options: Partial<SwitchgearOptions> = {}): Promise<Switchgear> {
  const gear = new Switchgear({
    url: gateway.url,
    token: "secret",
    service: "planner",
    probeWaitS: 60,
    onWarning: (message) => void warned.push(message),
    ...options,
  });
  gears.push(gear);
  await gear.ready(gateway.greet && gateway.fresh && gateway.refuseStreams === null ? 60 : 0);
  return gear;
}

async function open(gear: Switchgear, more: Json = {}): Promise<void> {
  gateway.publish(
    record("search", "open", 2, {
      open_until: inSeconds(60),
      last_error: "HTTPError: 503",
      cause: { rule: "failure_rate", value: 0.7, threshold: 0.5, sample: 30 },
      ...more,
    }),
  );
  await until(() => gear.isOpen("search"), "the open circuit arrives");
}

describe("the fleet's circuits", () => {
  it("an open circuit is refused by a process that saw no failure, and a closed one is called again", async () => {
    const gear = await connect();
    assert.equal(gateway.streamsOpened[0]!.headers.authorization, "Bearer secret");
    await gear.call("search", () => 1);
    await open(gear);
    await assert.rejects(
      gear.call("search", () => 1),
      (error: unknown) => {
        assert.ok(error instanceof CircuitOpenError);
        assert.match(
          error.text,
          /^The tool search is unavailable \(circuit open\)\. The rule failure_rate opened it \(0\.7 reached 0\.5 over 30 calls\)\. Its last error was an HTTP 503\. Do not call it again within the next \d\d s\.$/,
        );
        assert.equal(error.rejection.reason, "failure_rate 0.7 reached 0.5 over 30 calls");
        assert.equal(error.rejection.source, "fleet");
        assert.equal(error.rejection.generation, 2);
        return true;
      },
    );
    assert.deepEqual(refused(gear, "search", "other"), ["search"]);
    assert.match(gear.notice(), /^These tools are unavailable: search\. /);
    gateway.publish(record("search", "closed", 3));
    await until(() => !gear.isOpen("search"), "the closed circuit arrives");
    assert.equal(await gear.call("search", () => 2), 2);
    assert.equal(gear.notice({ userId: "another" }), "", "one that was read before changes once a minute");
  });

  it("a call that takes longer than the fleet's calls do is reported once while it runs, and its end says so", async () => {
    const gear = await connect();
    gateway.publish(record("search", "closed", 1, { overdue_after_ms: 30 }));
    gateway.publish(record("other", "open", 1, { open_until: inSeconds(60) }));
    await until(() => gear.isOpen("other"), "the records arrive");
    let answer: (found: string) => void = () => {};
    const call = gear.call("search", () => new Promise<string>((resolve) => (answer = resolve)), { userId: "ana" });
    const sent = (status: string): Json[] => gateway.executions.filter((event) => event["status"] === status);
    await until(() => sent("overdue").length > 0, "the report arrives");
    answer("found");
    assert.equal(await call, "found");
    await until(() => sent("success").length > 0, "the end arrives");
    const [report, ...others] = sent("overdue");
    assert.equal(others.length, 0);
    assert.equal(report!["user_id"], "ana");
    assert.equal(report!["generation"], 1);
    assert.ok((report!["execution_time_ms"] as number) >= 30);
    assert.equal(sent("success")[0]!["overdue_ms"], report!["execution_time_ms"]);
    await gear.call("search", () => "at once");
    await until(() => sent("success").length > 1, "the next end arrives");
    assert.equal(sent("success")[1]!["overdue_ms"], undefined);
  });

  it("a client knows the circuits of the snapshot before its first call if it waits for them", async () => {
    gateway.circuits["search"] = record("search", "open", 2, { open_until: inSeconds(60) });
    const gear = new Switchgear({ url: gateway.url, startWaitS: 60 });
    gears.push(gear);
    await assert.rejects(
      gear.call("search", () => 1),
      CircuitOpenError,
    );
  });

  it("a stream that breaks is opened again with the id of the last event, and keeps its circuits meanwhile", async () => {
    const gear = await connect();
    await open(gear);
    gateway.dropStreams();
    await assert.rejects(
      gear.call("search", () => 1),
      CircuitOpenError,
    );
    await until(() => gateway.openStreams === 1, "the stream is opened again");
    assert.equal(gateway.streamsOpened.at(-1)!.headers["last-event-id"], "c1");
    gateway.publish(record("search", "closed", 3));
    await until(() => !gear.isOpen("search"), "the deltas arrive");
  });

  it("records with a lower version, removed circuits and unreadable records change what they should", async () => {
    const gear = await connect();
    await open(gear);
    gateway.send("circuit", record("search", "closed", 1));
    gateway.send("circuit", { circuit_id: "search" });
    gateway.raw(": a comment\n\nevent: circuit\ndata: not json\n\n");
    gateway.publish(record("other", "forced_open", 1, { mode: "forced_open" }));
    await until(() => gear.isOpen("other"), "the next record arrives");
    assert.ok(gear.isOpen("search"));
    assert.equal(gear.status().follower!.malformed, 2);
    gateway.send("circuit", { circuit_id: "search", removed: true });
    await until(() => !gear.isOpen("search"), "the removal arrives");
  });

  it("a new snapshot replaces all circuits", async () => {
    const gear = await connect();
    await open(gear);
    gateway.send("snapshot", { circuits: { other: record("other", "open", 9, { open_until: inSeconds(60) }) } });
    await until(() => gear.isOpen("other"), "the snapshot arrives");
    assert.ok(!gear.isOpen("search"));
  });

  it("a gateway that is out of date confirms nothing, and its snapshots only add to what the client knows", async () => {
    let ahead = 0;
    const clock = { now: () => performance.now() / 1000 + ahead, wall: () => Date.now() / 1000 };
    const gear = await connect({ clock });
    await open(gear);
    gateway.publish(record("known", "open", 5, { open_until: inSeconds(60) }));
    await until(() => gear.isOpen("known"), "the second record arrives");
    ahead = 60;
    gateway.fresh = gateway.knowsIds = false;
    gateway.circuits = {
      known: record("known", "closed", 4),
      first: record("first", "open", 1, { open_until: inSeconds(60) }),
    };
    gateway.dropStreams();
    await until(() => gear.isOpen("first"), "the snapshot of a new stream arrives");
    gateway.send("snapshot", { circuits: { second: record("second", "open", 1, { open_until: inSeconds(60) }) } });
    await until(() => gear.isOpen("second"), "another snapshot arrives");
    assert.deepEqual(refused(gear, "search", "known", "first", "second"), ["search", "known", "first", "second"]);
    assert.equal(gear.status().mode, "last_known");
    gateway.send("heartbeat", { fresh: true });
    await until(() => gear.status().mode === "fleet", "the gateway is up to date again");
  });

  it("a client that starts at a gateway that is out of date uses its circuits, and is ready when they are confirmed", async () => {
    gateway.fresh = false;
    gateway.circuits["search"] = record("search", "open", 2, { open_until: inSeconds(60) });
    const gear = await connect();
    await until(() => gear.isOpen("search"), "the snapshot arrives");
    const { loaded, ageS } = gear.status().follower!;
    assert.deepEqual([loaded, ageS, gear.status().mode], [false, null, "loading"]);
    gateway.send("heartbeat", { fresh: true });
    assert.ok(await gear.ready(60));
    assert.equal(gear.status().mode, "fleet");
  });

  it("a snapshot waits for the heartbeat after it, and comes again if its stream ends before that", async () => {
    gateway.greet = false;
    const gear = await connect();
    await until(() => gateway.openStreams === 1, "the stream is opened");
    const circuits = { search: record("search", "open", 2, { open_until: inSeconds(60) }) };
    gateway.send("snapshot", { circuits });
    gateway.raw("event: circuit\ndata: not json\n\n");
    await until(() => gear.status().follower!.malformed === 1, "the next event arrives");
    assert.equal(gear.status().follower!.circuits, 0);
    gateway.dropStreams();
    await until(() => gateway.openStreams === 1, "the stream is opened again");
    assert.equal(gateway.streamsOpened.at(-1)!.headers["last-event-id"], undefined);
    gateway.send("snapshot", { circuits });
    gateway.send("heartbeat", { fresh: true });
    await until(() => gear.isOpen("search"), "the snapshot arrives");
  });

  it("a changed circuit after a snapshot without a heartbeat is added to those of the snapshot", async () => {
    gateway.greet = false;
    const gear = await connect();
    await until(() => gateway.openStreams === 1, "the stream is opened");
    gateway.send("snapshot", { circuits: { search: record("search", "open", 2, { open_until: inSeconds(60) }) } });
    gateway.publish(record("other", "open", 1, { open_until: inSeconds(60) }));
    gateway.send("heartbeat", { fresh: true });
    assert.ok(await gear.ready(60));
    assert.deepEqual(refused(gear, "search", "other"), ["search", "other"]);
  });

  it("an operator's disable lets calls pass although the process's own circuit is open", async () => {
    const gear = await connect({ localPolicies: { consecutive_failures: 1 } });
    await assert.rejects(gear.call("search", () => Promise.reject(new Error("broken"))));
    await assert.rejects(
      gear.call("search", () => 1),
      CircuitOpenError,
    );
    gateway.publish(record("search", "disabled", 2, { mode: "disabled" }));
    await until(() => !gear.isOpen("search"), "the command arrives");
    assert.equal(await gear.call("search", () => 1), 1);
  });

  it("circuits of users and sessions refuse their own calls alone", async () => {
    const gear = await connect();
    gateway.publish(
      record("search", "open", 2, { circuit_id: "search|user=ann", scope: "user", open_until: inSeconds(60) }),
    );
    await until(() => gear.isOpen("search", { userId: "ann" }), "the record arrives");
    await assert.rejects(
      gear.call("search", () => 1, { userId: "ann" }),
      CircuitOpenError,
    );
    assert.equal(await gear.call("search", () => 1, { userId: "bob" }), 1);
    assert.equal(gear.notice({ userId: "bob" }), "");
    assert.match(gear.notice({ userId: "ann" }), /search/);
  });

  it("the circuit of the tenant that the gateway names refuses its calls", async () => {
    gateway.tenant = "ac me";
    const gear = await connect();
    for (const [known, tenant] of ["globex", "ac me"].entries()) {
      assert.equal(await gear.call("search", () => 1), 1);
      const id = `search|tenant=${tenant}`;
      gateway.publish(record("search", "open", 2, { circuit_id: id, scope: "tenant", open_until: inSeconds(60) }));
      await until(() => gear.status().follower!.circuits === known + 1, "the record arrives");
    }
    await assert.rejects(
      gear.call("search", () => 1),
      CircuitOpenError,
    );
  });

  it("the circuit of a server refuses all its tools", async () => {
    const gear = await connect();
    gateway.publish(
      record("mcp:github", "open", 2, { circuit_id: "mcp:github|family", scope: "family", open_until: inSeconds(60) }),
    );
    await until(() => gear.isOpen("mcp:github:any"), "the record arrives");
    await assert.rejects(
      gear.call("mcp:github:any", () => 1),
      /its server mcp:github does not answer/,
    );
    assert.match(gear.notice(), /all tools of mcp:github/);
  });

  it("while a tool recovers, the process admits its share of the calls", async () => {
    const gear = await connect();
    gateway.publish(record("search", "closed", 4, { admitted_share: 0.25 }));
    await until(() => gear.status().follower!.circuits === 1, "the record arrives");
    let called = 0;
    for (let time = 0; time < 20; time += 1) {
      await gear
        .call("search", () => (called += 1))
        .catch((error: unknown) => assert.match(String(error), /is recovering/));
    }
    assert.equal(called, 5);
  });

  it("a glob limits the circuits that are followed", async () => {
    await connect({ tools: "mcp:github:*" });
    assert.equal(gateway.streamsOpened[0]!.path, "/v1/circuits/stream?tool=mcp%3Agithub%3A*");
  });

  it("a missing right is a warning with the gateway's words, and calls go on", async () => {
    gateway.refuseStreams = { status: 403, body: { title: "Forbidden", detail: "the token may not read" } };
    const gear = await connect();
    assert.equal(await gear.call("search", () => 1), 1);
    await until(() => warned.length > 0, "the warning");
    assert.match(gear.status().follower!.lastError!, /403\. Forbidden: the token may not read/);
    assert.equal(gear.status().mode, "loading");
  });
});

describe("probes of the fleet", () => {
  async function waitOver(gear: Switchgear): Promise<void> {
    gateway.publish(record("search", "open", 2, { open_until: inSeconds(-1) }));
    await until(() => gear.status().follower!.circuits === 1, "the record arrives");
  }

  it("after the wait one call asks for a probe, and its outcome goes to the gateway that permitted it", async () => {
    const gear = await connect();
    await waitOver(gear);
    gateway.decide = () => ({
      status: 200,
      body: { allowed: true, permit: "p1", tool: "search", probe: true, generation: 3, expires_in_s: 30 },
    });
    const permit = await gear.permit("search", { userId: "ann", requestId: "r" });
    assert.ok(permit.probe);
    assert.deepEqual(JSON.parse(gateway.of("/v1/decide")[0]!.body), {
      tool: "search",
      user_id: "ann",
      request_id: "r",
    });
    permit.success({ outputTokens: 7, durationMs: 12 });
    assert.ok(await gear.flush(60));
    assert.deepEqual(JSON.parse(gateway.of("/v1/outcome")[0]!.body), {
      permit: "p1",
      status: "success",
      duration_ms: 12,
      output_tokens: 7,
    });
    assert.deepEqual(gateway.executions, []);
  });

  it("of many calls at once only one asks, and the others are refused", async () => {
    const gear = await connect();
    await waitOver(gear);
    gateway.decide = () => ({
      status: 200,
      body: { allowed: true, permit: "p1", probe: true, generation: 3, expires_in_s: 30 },
    });
    let called = 0;
    const results = await Promise.allSettled(
      Array.from({ length: 20 }, () => gear.call("search", () => (called += 1))),
    );
    assert.equal(called, 1);
    assert.equal(results.filter((each) => each.status === "rejected").length, 19);
    assert.equal(gateway.of("/v1/decide").length, 1);
  });

  it("a probe that is not granted is a refusal, and the next request waits a second", async () => {
    const gear = await connect();
    await waitOver(gear);
    await assert.rejects(
      gear.call("search", () => 1),
      (error: unknown) => {
        assert.ok(error instanceof CircuitOpenError);
        assert.equal(error.state, "half_open");
        assert.equal(error.rejection.reason, "probes are out");
        return true;
      },
    );
    await assert.rejects(
      gear.call("search", () => 1),
      CircuitOpenError,
    );
    assert.equal(gateway.of("/v1/decide").length, 1);
  });

  it("a failed probe is reported with its class, type and message", async () => {
    const gear = await connect();
    await waitOver(gear);
    gateway.decide = () => ({
      status: 200,
      body: { allowed: true, permit: "p1", probe: true, generation: 3, expires_in_s: 30 },
    });
    const broken = Object.assign(new Error("token=abcdef refused"), { status: 503 });
    await assert.rejects(gear.call("search", () => Promise.reject(broken)));
    await gear.flush(60);
    const outcome = JSON.parse(gateway.of("/v1/outcome")[0]!.body) as Json;
    assert.deepEqual(
      [outcome["status"], outcome["error_class"], outcome["error_type"], outcome["error_message"]],
      ["error", "server", "Error", "token=[redacted] refused"],
    );
  });

  it("a failed probe is reported with the seconds that its tool asks to wait", async () => {
    const gear = await connect();
    await waitOver(gear);
    gateway.decide = () => ({
      status: 200,
      body: { allowed: true, permit: "p1", probe: true, generation: 3, expires_in_s: 30 },
    });
    const busy = Object.assign(new Error("busy"), { status: 429, headers: { "retry-after": "20" } });
    await assert.rejects(gear.call("search", () => Promise.reject(busy)));
    assert.ok(await gear.flush(60));
    const outcome = JSON.parse(gateway.of("/v1/outcome")[0]!.body) as Json;
    assert.deepEqual([outcome["error_class"], outcome["retry_after_s"]], ["rate_limited", 20]);
    assert.deepEqual(gateway.executions, []);
  });

  it("a probe that is unused, aborted or ignored decides nothing, and the gateway takes its outcome", async () => {
    const gear = await connect();
    await waitOver(gear);
    gateway.decide = () => ({
      status: 200,
      body: { allowed: true, permit: "p1", probe: true, generation: 3, expires_in_s: 30 },
    });
    (await gear.permit("search")).release();
    await assert.rejects(gear.call("search", () => Promise.reject(new DOMException("", "AbortError"))));
    (await gear.permit("search")).ignore();
    assert.ok(await gear.flush(60));
    const statuses = gateway.of("/v1/outcome").map((each) => (JSON.parse(each.body) as Json)["status"]);
    assert.deepEqual(statuses, ["ignored", "ignored", "ignored"]);
    assert.deepEqual(gateway.executions, []); // an outcome that the gateway refuses becomes an event
  });

  it("an outcome is sent again after an error, and becomes an event if the gateway never knew the permit", async () => {
    const gear = await connect();
    await waitOver(gear);
    gateway.decide = () => ({
      status: 200,
      body: { allowed: true, permit: "p1", probe: true, generation: 3, expires_in_s: 30 },
    });
    const answers = [{ status: 503 }, { status: 204 }];
    gateway.outcome = () => answers.shift()!;
    await gear.call("search", () => 1);
    assert.ok(await gear.flush(60));
    const resent = gateway.of("/v1/outcome").map((each) => each.headers["switchgear-resent"]);
    assert.deepEqual(resent, [undefined, "true"]);
    gateway.outcome = () => ({ status: 404 });
    await gear.call("search", () => 1);
    assert.ok(await gear.flush(60));
    assert.equal(gateway.executions.length, 1);
    assert.deepEqual([gateway.executions[0]!["status"], gateway.executions[0]!["generation"]], ["success", 3]);
  });

  it("an outcome becomes an event if its first attempt is lost and the gateway doesn't know the permit then", async () => {
    const gear = await connect();
    await waitOver(gear);
    gateway.decide = () => ({
      status: 200,
      body: { allowed: true, permit: "p1", probe: true, generation: 3, expires_in_s: 30 },
    });
    const answers: Answer[] = ["cut", { status: 404 }];
    gateway.outcome = () => answers.shift()!;
    await gear.call("search", () => 1);
    assert.ok(await gear.flush(60));
    assert.equal(gateway.of("/v1/outcome").length, 2);
    assert.equal(gateway.executions.length, 1);
  });

  it("a gateway that is away is not waited for: the process's own breaker decides", async () => {
    const gear = await connect();
    await waitOver(gear);
    gateway.decide = () => "cut";
    assert.equal(await gear.call("search", () => 1), 1);
    assert.equal(await gear.call("search", () => 2), 2);
    assert.equal(gateway.of("/v1/decide").length, 1);
    assert.match(warned.join(), /can't be asked for a probe/);
  });

  it("a gateway that does not answer costs a call probeWaitS at most", async () => {
    const gear = await connect({ probeWaitS: 0.1 });
    await waitOver(gear);
    gateway.decide = () => "hang";
    const began = Date.now();
    assert.equal(await gear.call("search", () => 1), 1);
    assert.ok(Date.now() - began < 30_000);
  });

  it("the probe of a server may call a tool that is open itself, but not one that an operator forced open", async () => {
    const gear = await connect();
    gateway.decide = () => ({
      status: 200,
      body: { allowed: true, permit: "p1", probe: true, generation: 3, expires_in_s: 30 },
    });
    gateway.publish(record("mcp:github:search", "open", 2, { open_until: inSeconds(60) }));
    gateway.publish(record("mcp:github:merge", "forced_open", 2, { mode: "forced_open" }));
    gateway.publish(
      record("mcp:github", "open", 2, { circuit_id: "mcp:github|family", scope: "family", open_until: inSeconds(-1) }),
    );
    await until(() => gear.status().follower!.circuits === 3, "the records arrive");
    await assert.rejects(
      gear.call("mcp:github:merge", () => 1),
      /forced open/,
    );
    assert.deepEqual(refused(gear, "mcp:github:search", "mcp:github:merge"), ["mcp:github:merge"]);
    assert.equal(await gear.call("mcp:github:search", () => 1), 1);
  });

  it("while another process holds the last probe, calls are refused without a request", async () => {
    const gear = await connect();
    const leases = [{ lease_id: "3.1", emitter_id: "other", expires_at: inSeconds(20) }];
    gateway.publish(record("search", "half_open", 3, { open_until: inSeconds(-1), leases, permits_left: 0 }));
    await until(() => gear.isOpen("search"), "the record arrives");
    await assert.rejects(
      gear.call("search", () => 1),
      /circuit half open/,
    );
    assert.equal(gateway.of("/v1/decide").length, 0);
  });
});

describe("without the gateway", () => {
  it("calls go through the process's own breakers from the start", async () => {
    await gateway.stop();
    const gear = new Switchgear({ url: gateway.url, onWarning: () => {} });
    gears.push(gear);
    for (let time = 0; time < 5; time += 1) {
      await assert.rejects(
        gear.call("search", () => Promise.reject(new Error("broken"))),
        /broken/,
      );
    }
    await assert.rejects(
      gear.call("search", () => 1),
      CircuitOpenError,
    );
    assert.equal(gear.status().mode, "loading");
    await gateway.start();
  });

  it("deny refuses every call until the fleet's state is known", async () => {
    gateway.refuseStreams = { status: 503 };
    const gear = await connect({ onStateUnavailable: "deny" });
    await assert.rejects(
      gear.call("search", () => 1),
      (error: unknown) => {
        assert.ok(error instanceof CircuitOpenError);
        assert.equal(error.rejection.reason, "the fleet's state is unavailable");
        return true;
      },
    );
    assert.equal(gear.notice(), "No tool can be called now: their state is unknown. Go on without tools.");
    gateway.refuseStreams = null;
    assert.ok(await gear.ready(60));
    assert.equal(await gear.call("search", () => 1), 1);
  });

  it("an old state is used for stateMaxAgeS, and then the process decides alone", async () => {
    let ahead = 0;
    const clock = { now: () => performance.now() / 1000 + ahead, wall: () => Date.now() / 1000 };
    const gear = await connect({ clock, stateMaxAgeS: 300 });
    await open(gear, { open_until: inSeconds(3600) });
    ahead = 60;
    assert.equal(gear.status().mode, "last_known");
    await assert.rejects(
      gear.call("search", () => 1),
      CircuitOpenError,
    );
    gateway.send("heartbeat", { fresh: false });
    gateway.publish(record("marker", "closed", 1));
    await until(() => gear.status().follower!.circuits === 2, "the record arrives");
    assert.equal(gear.status().mode, "last_known");
    ahead = 400;
    assert.equal(gear.status().mode, "local_only");
    assert.equal(await gear.call("search", () => 1), 1);
    gateway.send("heartbeat", { fresh: true });
    await until(() => gear.status().mode === "fleet", "a heartbeat confirms the state");
    await assert.rejects(
      gear.call("search", () => 1),
      CircuitOpenError,
    );
  });

  it("a process that was frozen knows that its state is old", async () => {
    let wall = 0;
    const gear = await connect({
      clock: { now: () => performance.now() / 1000, wall: () => Date.now() / 1000 + wall },
      onStateUnavailable: "local",
    });
    assert.equal(gear.status().mode, "fleet");
    wall = 3600;
    assert.equal(gear.status().mode, "local_only");
  });
});
