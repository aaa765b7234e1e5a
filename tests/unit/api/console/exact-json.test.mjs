import assert from "node:assert/strict";
import { test } from "node:test";

import {
  exactJson,
  jsonProblem,
  prettyJson,
  withoutSpace,
} from "../../../../sinks/switchgear_api/console/assets/js/exact-json.js";

const LONG = "7318294821004917761";

test("JSON is shown with line breaks only if each value stays as it is written", () => {
  assert.equal(
    prettyJson('{"a": [1, "x\\u00e9 y"]}'),
    '{\n  "a": [\n    1,\n    "xé y"\n  ]\n}',
  );
  for (const text of [
    `{"id": ${LONG}}`,
    '{"a": 1.0}',
    '{"a": 1, "a": 2}',
    "{broken",
  ])
    assert.equal(prettyJson(text), text);
});

test("space between values goes, and numbers and texts stay as they are", () => {
  assert.equal(
    withoutSpace(`{\n  "id": ${LONG},\n  "text": "a  b \\" c"\n}`),
    `{"id":${LONG},"text":"a  b \\" c"}`,
  );
});

test("a whole number that a browser can't hold becomes its text", () => {
  const text = `[${LONG}, 5, 1.5, 0.12345678901234567890, "${LONG}", -${LONG}]`;
  assert.deepEqual(exactJson(text), [
    LONG,
    5,
    1.5,
    0.12345678901234568,
    LONG,
    `-${LONG}`,
  ]);
});

test("what is wrong with JSON is said", () => {
  assert.equal(jsonProblem("[1]"), "");
  assert.match(jsonProblem("[1"), /^It isn't JSON: /);
});
