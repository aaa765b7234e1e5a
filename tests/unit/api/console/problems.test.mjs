import assert from "node:assert/strict";
import { test } from "node:test";

import { clock } from "../../../../sinks/switchgear_api/console/assets/js/format.js";
import {
  badProblem,
  circuitsOldSince,
  headOf,
  problemsOf,
} from "../../../../sinks/switchgear_api/console/assets/js/problems.js";

const NOW = Date.parse("2026-11-28T06:00:00.000Z");
const problem = (component, level = "bad") => ({
  component,
  level,
  what: `The ${component} is away.`,
  since: "2026-11-28T05:12:00.000Z",
  means: "",
  todo: "",
});

test("a page looks well only without a bad problem", () => {
  assert.equal(
    badProblem({ problems: [problem("alerts", "note")] }),
    undefined,
  );
  assert.equal(
    badProblem({ problems: [problem("alerts", "note"), problem("sink")] })
      .component,
    "sink",
  );
  assert.deepEqual(
    problemsOf({}),
    [],
    "a server of an earlier release sends none",
  );
});

test("the circuits on the screen are old while nothing decides, not while nothing is stored", () => {
  const since = clock("2026-11-28T05:12:00.000Z", NOW);
  assert.equal(
    circuitsOldSince({ problems: [problem("sink"), problem("worker")] }, NOW),
    since,
  );
  assert.equal(circuitsOldSince({ problems: [problem("kafka")] }, NOW), since);
  assert.equal(
    circuitsOldSince(
      { problems: [problem("sink"), problem("worker", "note")] },
      NOW,
    ),
    null,
  );
});

test("a problem says since when, if that is known", () => {
  const since = clock("2026-11-28T05:12:00.000Z", NOW);
  assert.equal(
    headOf(problem("worker"), NOW),
    `The worker is away, since ${since}.`,
  );
  assert.equal(
    headOf({ ...problem("worker"), since: null }, NOW),
    "The worker is away.",
  );
});
