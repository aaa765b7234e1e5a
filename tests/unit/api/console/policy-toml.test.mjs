import assert from "node:assert/strict";
import { test } from "node:test";

import {
  FIELD_GROUPS,
  valueOf,
} from "../../../../sinks/switchgear_api/console/assets/js/policy-fields.js";
import { valuesIn } from "../../../../sinks/switchgear_api/console/assets/js/policies.js";
import {
  parsePolicy,
  withValue,
  writePolicy,
} from "../../../../sinks/switchgear_api/console/assets/js/policy-toml.js";

const TEXT = `# for the weather
[tools."mcp:weather:*"]
failure_rate_threshold = 0.3   # a third
minimum_number_of_calls = 1_000
mode = "metrics_only"
honor_retry_after = false
recovery_ramp = [0.1, 0.25, 0.5]
fallback = ["a # b", 'c']
wasted_tokens = "off"

[tools."mcp:weather:*".cusum]
broken_failure_rate = 5e-1
`;

/** Without prototypes, which the library's tables don't have. */
const bare = (value) => JSON.parse(JSON.stringify(value));

test("a table of a policy file is read", () => {
  assert.deepEqual(bare(parsePolicy(TEXT)), {
    policy: {
      failure_rate_threshold: 0.3,
      minimum_number_of_calls: 1000,
      mode: "metrics_only",
      honor_retry_after: false,
      recovery_ramp: [0.1, 0.25, 0.5],
      fallback: ["a # b", "c"],
      wasted_tokens: "off",
      cusum: { broken_failure_rate: 0.5 },
    },
    problem: "",
  });
});

test("what is written is read back the same", () => {
  const { policy } = parsePolicy(TEXT);
  assert.deepEqual(parsePolicy(writePolicy(policy)).policy, policy);
});

test("a line that can't be read is named", () => {
  assert.match(parsePolicy("a = 1\nb = yes").problem, /^Line 2: invalid value/);
  assert.match(parsePolicy("just words").problem, /^Line 1: /);
  assert.match(
    parsePolicy("jitter = 0.1\njitter.x = 2").problem,
    /^Line 2: .*redefine/,
  );
});

test("values of two tables are a problem, because one of them would be lost", () => {
  assert.match(
    parsePolicy("[tools.a]\njitter = 0.1\n[tools.b]\njitter = 0.2").problem,
    /one table/,
  );
  assert.deepEqual(parsePolicy("[default]\njitter = 0.1").policy, {
    jitter: 0.1,
  });
});

test("a name that every object of JavaScript has is a name like any other", () => {
  const { policy } = parsePolicy('__proto__.x = "1"\nconstructor = 2');
  assert.equal({}.x, undefined);
  assert.deepEqual(Object.keys(policy), ["__proto__", "constructor"]);
  assert.deepEqual(valuesIn({}, { constructor: 2 }), {
    constructor: undefined,
  });
});

test("a field takes percentages, off and lists, and an empty one leaves the value out", () => {
  const field = (name) =>
    FIELD_GROUPS.flatMap((group) => group.fields).find(
      (each) => each.name === name,
    );
  assert.equal(valueOf(field("failure_rate_threshold"), "30%"), 0.3);
  assert.equal(valueOf(field("wasted_tokens"), "off"), "off");
  assert.deepEqual(valueOf(field("recovery_ramp"), "0.1, 0.5"), [0.1, 0.5]);
  assert.equal(valueOf(field("honor_retry_after"), "false"), false);
  assert.equal(valueOf(field("jitter"), " "), undefined);
  assert.deepEqual(withValue({ jitter: 0.1, a: 1 }, "jitter", undefined), {
    a: 1,
  });
});
