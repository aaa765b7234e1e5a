import assert from "node:assert/strict";
import { test } from "node:test";

import { summary } from "../../../../sinks/switchgear_api/console/assets/js/announce.js";
import {
  anyOpen,
  bandSegments,
  beatPaths,
  linePath,
  searchable,
  spansOf,
} from "../../../../sinks/switchgear_api/console/assets/js/shapes.js";
import { commandsFor } from "../../../../sinks/switchgear_api/console/assets/js/states.js";
import { visibleRows } from "../../../../sinks/switchgear_api/console/assets/js/windowing.js";

const at = (seconds) => new Date(seconds * 1000).toISOString();

test("spans that begin earlier or end later are cut to the band", () => {
  const spans = [
    { at: at(0), until: at(50), state: "closed" },
    { at: at(50), until: at(75), state: "open" },
    { at: at(75), until: null, state: "closed" },
    { at: at(900), until: null, state: "open" },
  ];
  assert.deepEqual(
    bandSegments(spans, 25_000, 125_000).map(({ left, width }) => [
      left,
      width,
    ]),
    [
      [0, 25],
      [25, 25],
      [50, 50],
    ],
  );
});

test("changes become spans, with the state before the first", () => {
  const changes = [
    { at: at(10), from: "closed", to: "open" },
    { at: at(20), from: "open", to: "closed" },
  ];
  assert.deepEqual(
    spansOf(changes, 0, 30_000).map(({ at: begin, until, state }) => [
      begin,
      until,
      state,
    ]),
    [
      [at(0), at(10), "closed"],
      [at(10), at(20), "open"],
      [at(20), at(30), "closed"],
    ],
  );
  assert.deepEqual(
    spansOf([{ at: at(10), state: "open" }], 0, 30_000).map(
      (span) => span.state,
    ),
    ["closed", "open"],
  );
  assert.deepEqual(spansOf([], 0, 1), []);
});

test("a minute with one failure among many calls shows it", () => {
  const { good, bad } = beatPaths({ calls: [1000, 0], errors: [1, 0] }, 18);
  assert.match(bad, /^M0 0h2v2h-2z$/);
  assert.match(good, /^M0 2h2v16h-2z$/);
});

test("a line needs two values", () => {
  assert.equal(linePath([1], 10, 10), "");
  assert.equal(linePath([0, 0], 10, 10).startsWith("M0.0 9.0L10.0"), true);
});

test("a long table has only the rows near the screen in the document", () => {
  assert.deepEqual(visibleRows(2000, 34, 3400, 680, 8), {
    first: 92,
    last: 128,
    before: 3128,
    after: 63_648,
  });
  assert.deepEqual(visibleRows(5, 34, -200, 680, 8), {
    first: 0,
    last: 5,
    before: 0,
    after: 0,
  });
  assert.equal(visibleRows(0, 34, 900, 680).last, 0);
});

test("a storm of changes is announced in one sentence", () => {
  assert.equal(summary(["a.", "b."]), "a. b.");
  assert.equal(
    summary(["a.", "b.", "c.", "d.", "e."]),
    "a. b. c. And 2 more changes.",
  );
});

test("what was commanded can be given back to the policy first", () => {
  assert.equal(commandsFor("forced_open", true)[0], "auto");
  assert.equal(commandsFor("open", false).includes("auto"), false);
  assert.equal(commandsFor("closed", true)[0], "auto");
});

test("circuits of a glob are one band, open while any of them is", () => {
  const changes = [
    { at: at(1), tool: "a", state: "open" },
    { at: at(2), tool: "b", state: "open" },
    { at: at(3), tool: "a", state: "half_open" },
    { at: at(4), tool: "a", state: "closed" },
    { at: at(5), tool: "b", state: "closed" },
  ];
  assert.deepEqual(anyOpen(changes), [
    { at: at(1), state: "open" },
    { at: at(5), state: "closed" },
  ]);
});

test("the text of a pattern that finds its calls is in the example too", () => {
  assert.equal(
    searchable(
      "GET <url> timed out after <n> ms",
      "GET http://a timed out after 5 ms",
    ),
    "timed out after",
  );
  assert.equal(
    searchable("Traceback in handler: <n>", "Traceback\nin handler: 5"),
    "Traceback",
  );
});
