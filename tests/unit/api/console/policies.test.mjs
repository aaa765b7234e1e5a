import assert from "node:assert/strict";
import { test } from "node:test";

import {
  currentPolicy,
  valuesIn,
  valuesOf,
} from "../../../../sinks/switchgear_api/console/assets/js/policies.js";

test("settings with a dot are values of a table", () => {
  const values = [
    { setting: "jitter", value: 0.1 },
    { setting: "cusum.a", value: 1 },
    { setting: "cusum.b", value: 2 },
  ];
  assert.deepEqual(valuesOf(values), { jitter: 0.1, cusum: { a: 1, b: 2 } });
  assert.deepEqual(
    valuesIn(valuesOf(values), {
      cusum: { a: 3 },
      jitter: 0.2,
      mode: "enforce",
    }),
    { cusum: { a: 1 }, jitter: 0.1, mode: undefined },
  );
});

test("what an operator set lies over the file's table of the same pattern, its default and what is built in", () => {
  const answer = {
    built_in: { x: 0, w: 7, v: 8 },
    default: { v: 5 },
    rules: [{ pattern: "a*", values: { x: 1, y: 2 } }],
    overrides: [
      { pattern: "a*", values: { x: 3 } },
      { pattern: "b", values: { x: 9 } },
    ],
  };
  assert.deepEqual(currentPolicy(answer, "a*"), {
    x: 3,
    w: 7,
    v: 5,
    y: 2,
  });
  assert.deepEqual(currentPolicy({ rules: [], overrides: null }, "a*"), {});
  assert.deepEqual(currentPolicy(null, "a*"), {});
});
