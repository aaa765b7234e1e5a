import assert from "node:assert/strict";
import { test } from "node:test";

import { keySequence } from "../../../../sinks/switchgear_api/console/assets/js/keys.js";

function recorder() {
  const done = [];
  const note = (name) => (value) =>
    done.push(value === undefined ? name : `${name} ${value}`);
  const take = keySequence({
    go: note("go"),
    search: note("search"),
    help: note("help"),
    theme: note("theme"),
    move: note("move"),
  });
  return { done, take };
}

test("g and a letter go to a page, other keys act at once", () => {
  const { done, take } = recorder();
  ["g", "n", "/", "?", "j", "k", "T"].forEach((key, index) =>
    take(key, index * 100),
  );
  assert.deepEqual(done, [
    "go /",
    "search",
    "help",
    "move 1",
    "move -1",
    "theme",
  ]);
});

test("a letter long after g does nothing, and an unknown key is left to the browser", () => {
  const { done, take } = recorder();
  take("g", 0);
  assert.equal(take("n", 5_000), false);
  take("g", 6_000);
  assert.equal(take("x", 6_100), false);
  assert.deepEqual(done, []);
});
