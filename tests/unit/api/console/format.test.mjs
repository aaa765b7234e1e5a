import assert from "node:assert/strict";
import { test } from "node:test";

import * as format from "../../../../sinks/switchgear_api/console/assets/js/format.js";

test("numbers keep all digits up to 9,999 and then three", () => {
  const shown = [0, 9999, 10_000, 45_412, 999_949, 999_960, 1_530_000, 2e9].map(
    format.count,
  );
  assert.deepEqual(shown, [
    "0",
    "9,999",
    "10 k",
    "45.4 k",
    "1 M",
    "1 M",
    "1.53 M",
    "2 G",
  ]);
  assert.equal(format.count(null), "–");
});

test("a rate that is more than nothing never looks like nothing, nor like everything", () => {
  const shown = [0, 0.0004, 0.025, 0.82, 0.9995, 1, null].map(format.percent);
  assert.deepEqual(shown, [
    "0%",
    "<0.1%",
    "2.5%",
    "82%",
    ">99.9%",
    "100%",
    "–",
  ]);
});

test("a circuit that has just changed did so just now, and its clock may be ahead a little", () => {
  const now = Date.parse("2026-11-26T12:00:30.000Z");
  const since = (seconds) =>
    format.lasting(new Date(now - seconds * 1000).toISOString(), now);
  assert.deepEqual([-1.5, 0, 0.9].map(since), [
    "just now",
    "just now",
    "just now",
  ]);
  assert.deepEqual([1, 12.7, 200].map(since), [
    "for 1 s",
    "for 12 s",
    "for 3 m 20 s",
  ]);
  const ahead = new Date(now + 3_600_000).toISOString();
  assert.equal(format.lasting(ahead, now), `since ${format.clock(ahead, now)}`);
  assert.deepEqual(
    [null, undefined, "soon"].map((iso) => format.lasting(iso, now)),
    ["", "", ""],
  );
});

test("a value is shown as its name says, with no more digits than a reader can use", () => {
  const table = [
    ["duration_ms", 0.04870990003434098, "0.05 ms"],
    ["duration_ms", 431.20000000000005, "431 ms"],
    ["duration_ms", 0, "0 ms"],
    ["circuits_age_s", 0.137, "137 ms"],
    ["circuits_age_s", 4.26, "4.3 s"],
    ["newest_event_age_s", 3725, "1 h 2 m"],
    ["usd", 0.0123, "$0.01"],
    ["bytes", 812_000_000, "812 MB"],
    ["input_size", 15, "15 B"],
    ["records_per_s", 0.123456, "0.12 /s"],
    ["retention_days", 90, "90 d"],
    ["port", 19092, "19092"],
    ["lag", 45_412, "45.4 k"],
    ["share", 0.04870990003434098, "0.04871"],
    ["ready", false, "no"],
    ["why", null, "–"],
    ["status", "error", "error"],
  ];
  assert.deepEqual(
    table.map(([name, value]) => format.named(name, value)),
    table.map((row) => row[2]),
  );
  assert.equal(format.named("tokens", 45_412, { exact: true }), "45412");
});

test("a number without a unit keeps its whole part and four digits that count", () => {
  const shown = [
    0.04870990003434098,
    123_456.789,
    99_999.5,
    -0.5,
    1e-15,
    7,
    Infinity,
  ].map(format.plain);
  assert.deepEqual(shown, [
    "0.04871",
    "123457",
    "100000",
    "-0.5",
    "1.000e-15",
    "7",
    "Infinity",
  ]);
  assert.equal(format.plain([0.1 + 0.2, { rate: 1 / 3 }]), "0.3, rate 0.3333");
});

test("durations show their two largest units", () => {
  assert.equal(format.duration(0.05), "50 ms");
  const shown = [0, 59.9, 60, 200, 3600, 7500, 90_000].map(format.duration);
  assert.deepEqual(shown, [
    "0 s",
    "59 s",
    "1 m",
    "3 m 20 s",
    "1 h",
    "2 h 5 m",
    "1 d 1 h",
  ]);
  assert.deepEqual([0, 0.04, 850, 1200, 12_000].map(format.millis), [
    "0 ms",
    "0.04 ms",
    "850 ms",
    "1.2 s",
    "12 s",
  ]);
});

test("a countdown ends at zero and never below", () => {
  assert.deepEqual([-3, 0.2, 61, 3800].map(format.countdown), [
    "0:00",
    "0:01",
    "1:01",
    "1:03:20",
  ]);
});

test("money and sizes are short", () => {
  assert.deepEqual([0, 0.004, 0.82, 1204, null].map(format.usd), [
    "$0",
    "<$0.01",
    "$0.82",
    "$1,204",
    "–",
  ]);
  assert.deepEqual([12, 1500, 812_000_000].map(format.bytes), [
    "12 B",
    "1.5 kB",
    "812 MB",
  ]);
});

test("a moment of another day shows its date", () => {
  const now = new Date(2026, 10, 26, 12).getTime();
  assert.equal(
    format.clock(new Date(2026, 10, 26, 9, 5, 7).toISOString(), now),
    "09:05:07",
  );
  assert.equal(
    format.clock(new Date(2026, 10, 25, 9, 5, 7).toISOString(), now),
    "25 Nov 09:05:07",
  );
  assert.equal(format.clock("not a time", now), "–");
});

test("values of a policy are words", () => {
  assert.equal(format.plain(null), "off");
  assert.equal(format.plain(["a", "b"]), "a, b");
  assert.equal(
    format.plain({ broken_failure_rate: 0.5 }),
    "broken_failure_rate 0.5",
  );
});
