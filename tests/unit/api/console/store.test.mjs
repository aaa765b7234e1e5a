import assert from "node:assert/strict";
import { test } from "node:test";

import {
  CALM,
  MOST_TOOLS,
} from "../../../../sinks/switchgear_api/console/assets/js/declared.js";
import {
  FRESH_MS,
  Store,
  byUrgency,
} from "../../../../sinks/switchgear_api/console/assets/js/store.js";

const AT = Date.parse("2026-11-26T12:00:30.000Z");
const stats = (calls, errors) => ({
  calls,
  errors,
  timeouts: 0,
  refused: 0,
  error_rate: errors / calls,
  p50_ms: 1,
  p95_ms: 2,
  p99_ms: 3,
});
const tool = (name, state, calls = 100, errors = 0) => ({
  tool: name,
  circuit_id: name,
  family: null,
  state,
  version: 1,
  stats: stats(calls, errors),
  beat: { calls: [1], errors: [0] },
  action: { text: "Wait", verbs: [] },
  kind: "down",
});
const fleet = { calls: 1, errors: 0, tools: 3, open: 0, half_open: 0 };

function loaded(tools, families = []) {
  const store = new Store();
  store.load(
    {
      checked_at: new Date(AT).toISOString(),
      data: {},
      fleet,
      tools,
      families,
    },
    AT,
  );
  return store;
}

test("broken tools come first by their errors, then commanded ones, then the rest by errors and calls", () => {
  const tools = [
    tool("busy", "closed", 900),
    tool("trial", "metrics_only"),
    tool("flaky", "closed", 50, 5),
    tool("few", "open", 10, 3),
    tool("many", "half_open", 90, 60),
  ];
  assert.deepEqual(
    tools.sort(byUrgency).map((each) => each.tool),
    ["many", "few", "trial", "flaky", "busy"],
  );
});

test("a record with a lower version than the one that is known changes nothing", () => {
  const store = loaded([tool("search", "closed")]);
  assert.equal(
    store.applyCircuit({ tool: "search", state: "open", version: 3 }, AT).from,
    "closed",
  );
  assert.equal(
    store.applyCircuit({ tool: "search", state: "closed", version: 2 }, AT),
    null,
  );
  assert.equal(store.tools.get("search").state, "open");
});

test("a changed state takes the advice of its record, never that for the old state, and counts the open tools again", () => {
  const store = loaded([tool("search", "closed")]);
  const advice = { text: "Check the server.", verbs: [] };
  store.applyCircuit(
    { tool: "search", state: "open", version: 2, kind: "down", action: advice },
    AT,
  );
  assert.deepEqual(store.tools.get("search").action, advice);
  assert.equal(store.tools.get("search").stats.calls, 100);
  assert.equal(store.fleet.open, 1);
});

test("an older page keeps the advice of the newer record", () => {
  const store = loaded([tool("search", "closed")]);
  const advice = {
    text: "Calls are refused until a probe succeeds.",
    verbs: [],
  };
  store.applyCircuit(
    { tool: "search", state: "open", version: 2, kind: "down", action: advice },
    AT,
  );
  const old = {
    ...tool("search", "closed"),
    kind: null,
    action: { text: "The circuit is closed.", verbs: [] },
  };
  for (const take of ["load", "refresh"]) {
    store[take](
      {
        checked_at: new Date(AT).toISOString(),
        data: {},
        fleet,
        tools: [old],
        families: [],
      },
      AT,
    );
    const { state, kind, action } = store.tools.get("search");
    assert.deepEqual([state, kind, action], ["open", "down", advice], take);
  }
});

test("a tool that opens again opened now, and a failed probe opens nothing", () => {
  const store = loaded([
    {
      ...tool("search", "open"),
      opened_at: "2026-11-26T11:00:00.000Z",
      opened_why: "It failed.",
    },
  ]);
  const opening = () => [
    store.tools.get("search").opened_at,
    store.tools.get("search").opened_why,
  ];
  const record = (version, state, since) =>
    store.applyCircuit(
      { tool: "search", state, version, since, why: `Version ${version}.` },
      AT,
    );
  record(2, "half_open", "2026-11-26T12:00:00.000Z");
  record(3, "open", "2026-11-26T12:00:10.000Z");
  assert.deepEqual(opening(), ["2026-11-26T11:00:00.000Z", "It failed."]);
  record(4, "closed", "2026-11-26T12:00:20.000Z");
  assert.deepEqual(opening(), [null, null]);
  record(5, "open", "2026-11-26T12:00:30.000Z");
  assert.deepEqual(opening(), ["2026-11-26T12:00:30.000Z", "Version 5."]);
});

test("a server was last called when one of its tools was", () => {
  const store = loaded([
    tool("a", "closed"),
    tool("b", "closed"),
    tool("c", "closed"),
  ]);
  const called = (at) => ({
    stats: stats(4, 1),
    beat_now: { calls: 4, errors: 1 },
    last_call_at: at,
  });
  store.applyStats(
    {
      tools: {
        a: called("2026-11-26T11:59:01.000Z"),
        b: called("2026-11-26T11:59:07.000Z"),
      },
    },
    AT,
  );
  assert.equal(
    store.lastCallAt(["a", "b", "c", "gone"]),
    "2026-11-26T11:59:07.000Z",
  );
  assert.equal(store.lastCallAt(["c"]), null);
});

test("a page that was computed before a record of the stream doesn't take the record back", () => {
  const store = loaded([tool("search", "closed")]);
  store.applyCircuit(
    { tool: "search", state: "open", version: 2, why: "It fails." },
    AT,
  );
  store.load(
    {
      checked_at: new Date(AT).toISOString(),
      data: {},
      fleet,
      tools: [tool("search", "closed", 300)],
      families: [],
    },
    AT,
  );
  const { state, why, stats: numbers } = store.tools.get("search");
  assert.deepEqual([state, why, numbers.calls], ["open", "It fails.", 300]);
});

test("a server's record goes to its family and keeps the family's tools", () => {
  const family = {
    ...tool("mcp:weather", "closed"),
    family: "mcp:weather",
    circuit_id: "mcp:weather|family",
    tools: ["mcp:weather:now"],
  };
  const store = loaded([], [family]);
  store.applyCircuit(
    {
      tool: "mcp:weather",
      family: "mcp:weather",
      is_family: true,
      state: "open",
      version: 2,
    },
    AT,
  );
  assert.deepEqual(
    store.brokenFamilies().map((each) => each.tools),
    [["mcp:weather:now"]],
  );
  assert.equal(store.tools.size, 0);
});

test("a tool that appears in the stream alone has a row", () => {
  const store = loaded([]);
  store.applyCircuit(
    { tool: "new", circuit_id: "new", state: "open", version: 1 },
    AT,
  );
  store.applyStats(
    {
      tools: {
        other: { stats: stats(4, 1), beat_now: { calls: 4, errors: 1 } },
      },
    },
    AT,
  );
  assert.deepEqual(
    store.sorted().map((each) => each.tool),
    ["new", "other"],
  );
});

test("the strips move along when a minute passes, and the newest numbers replace the last minute", () => {
  const store = loaded([tool("search", "closed")]);
  store.applyStats(
    {
      tools: {
        search: { stats: stats(9, 0), beat_now: { calls: 9, errors: 0 } },
      },
    },
    AT,
  );
  assert.equal(store.tools.get("search").beat.calls.at(-1), 9);
  store.applyStats(
    {
      tools: {
        search: { stats: stats(11, 0), beat_now: { calls: 2, errors: 0 } },
      },
    },
    AT + 60_000,
  );
  const { beat } = store.tools.get("search");
  assert.deepEqual(beat.calls.slice(-2), [9, 2]);
  assert.equal(beat.calls.length, 60);
});

test("the server's clock counts, not that of the browser", () => {
  const store = loaded([]);
  store.applyHeartbeat(
    { now: new Date(AT + 5_000).toISOString(), circuits_fresh: false },
    AT,
  );
  assert.equal(store.serverNow(AT), AT + 5_000);
  assert.equal(store.data.circuits_fresh, false);
});

test("a circuit that an operator has opened for a time is forced open until that time", () => {
  const store = loaded([tool("search", "closed")]);
  const until = new Date(AT + 60_000).toISOString();
  store.applyCircuit(
    {
      tool: "search",
      state: "open",
      version: 2,
      override: { command: "force_open" },
      next_probe_at: until,
      expires_at: null,
    },
    AT,
  );
  assert.deepEqual(
    [store.tools.get("search").state, store.tools.get("search").expires_at],
    ["forced_open", until],
  );
});

test("a refresh of the tools in trouble takes the advice from those that have recovered", () => {
  const store = loaded([tool("broken", "open"), tool("fine", "closed")]);
  store.applyCircuit({ ...tool("broken", "closed"), version: 2 }, AT);
  store.refresh(
    {
      checked_at: new Date(AT + 1_000).toISOString(),
      data: {},
      fleet,
      families: [],
      tools: [tool("other", "open")],
    },
    AT + 1_000,
  );
  assert.deepEqual(
    store.sorted().map((each) => [each.tool, each.state, each.action]),
    [
      ["other", "open", { text: "Wait", verbs: [] }],
      ["broken", "closed", CALM.action],
      ["fine", "closed", CALM.action],
    ],
  );
  assert.equal(store.tools.get("fine").stats.calls, 100, "its numbers stay");
});

test("a server that opened after an answer was computed stays, with the tools that are known now", () => {
  const store = loaded([{ ...tool("mcp:a:x", "closed"), family: "mcp:a" }]);
  const record = {
    ...tool("mcp:a", "open"),
    circuit_id: "mcp:a|family",
    family: "mcp:a",
    is_family: true,
  };
  store.applyCircuit(record, AT);
  store.refresh(
    {
      checked_at: new Date(AT).toISOString(),
      data: {},
      fleet,
      tools: [],
      families: [],
    },
    AT,
  );
  const [family] = store.brokenFamilies();
  assert.equal(family.state, "open");
  assert.deepEqual([...store.toolsOfBrokenFamilies()], [[family, ["mcp:a:x"]]]);
  assert.equal(store.refusingFamily(store.tools.get("mcp:a:x")), family);
});

test("a tool that changed some time ago is no longer remembered as changed", () => {
  const store = loaded([]);
  for (let number = 0; number < 100; number += 1)
    store.applyCircuit({ ...tool(`t${number}`, "open"), version: 1 }, AT);
  assert.equal(store.changedAt.size, 100);
  store.applyCircuit({ ...tool("new", "open"), version: 1 }, AT + FRESH_MS - 1);
  store.applyHeartbeat(
    { now: new Date(AT + FRESH_MS).toISOString() },
    AT + FRESH_MS,
  );
  assert.deepEqual([...store.changedAt.keys()], ["new"]);
});

test("names without end take no more room than the tools that the API answers with, and one that breaks has a place", () => {
  const names = Array.from({ length: MOST_TOOLS }, (_, number) => `t${number}`);
  const store = loaded(names.map((name) => tool(name, "closed")));
  const numbers = { stats: stats(4, 1), beat_now: { calls: 4, errors: 1 } };
  store.applyStats({ tools: { one_more: numbers, t7: numbers } }, AT);
  assert.equal(
    store.applyCircuit({ ...tool("another", "closed"), version: 1 }, AT),
    null,
  );
  assert.deepEqual(
    [store.tools.size, store.tools.get("t7").stats.calls],
    [MOST_TOOLS, 4],
  );
  assert.equal(
    store.applyCircuit({ ...tool("broken", "open"), version: 1 }, AT).circuit
      .tool,
    "broken",
  );
  assert.deepEqual(
    [store.tools.size, store.tools.has("broken"), store.tools.has("t0")],
    [MOST_TOOLS, true, false],
  );
});
