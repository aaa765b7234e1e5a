/** A scenario's `config` as a policy. An unknown key makes the scenario fail. */
import assert from "node:assert/strict";
import { policyOf, type Policy, type PolicyInput } from "../../src/breaker/policy.js";

const NEVER = 1e9;
const PLAIN: Record<string, keyof Policy> = {
  consecutive_failures: "consecutive_failures",
  failure_count: "failure_count",
  cusum: "cusum",
  open_s: "wait_duration_in_open_state_s",
  backoff: "backoff_multiplier",
  backoff_multiplier: "backoff_multiplier",
  max_open_s: "max_wait_duration_in_open_state_s",
  jitter: "jitter",
  wasted_tokens: "wasted_tokens",
  min_reporters: "minimum_reporters",
  minimum_reporters: "minimum_reporters",
  honor_retry_after: "honor_retry_after",
  mode: "mode",
  min_calls: "minimum_number_of_calls",
  failure_rate: "failure_rate_threshold",
  slow_ms: "slow_call_duration_threshold_ms",
  slow_rate: "slow_call_rate_threshold",
  ramp: "recovery_ramp",
  ramp_step_s: "recovery_ramp_step_s",
  retry_after_ramp: "retry_after_ramp",
};
const HALF_OPEN: Record<string, keyof Policy> = {
  permits: "permitted_number_of_calls_in_half_open_state",
  decide: "half_open_decision",
  close_after: "success_threshold_to_close",
  max_wait_s: "max_wait_duration_in_half_open_state_s",
};
const ELSEWHERE = ["window", "half_open", "cmp", "classify", "evaluate", "slow"];

export function scenarioPolicy(config: Record<string, unknown>): Policy {
  const values: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(config)) {
    assert.ok(key in PLAIN || ELSEWHERE.includes(key), `the adapter does not know the config key ${key}`);
    if (key in PLAIN && value !== null) {
      values[PLAIN[key]!] = value;
    }
  }
  Object.assign(values, windowOf(config["window"] as Record<string, unknown> | undefined));
  for (const [key, value] of Object.entries((config["half_open"] as Record<string, unknown> | undefined) ?? {})) {
    assert.ok(key in HALF_OPEN, `the adapter does not know ${key} of half_open`);
    if (value !== null) {
      values[HALF_OPEN[key]!] = value;
    }
  }
  if (values["slow_call_rate_threshold"] === undefined || values["slow_call_duration_threshold_ms"] === undefined) {
    delete values["slow_call_rate_threshold"];
    delete values["slow_call_duration_threshold_ms"];
  }
  const compare = config["cmp"] ?? ">=";
  assert.ok(compare === ">=" || compare === ">");
  if (compare === ">") {
    exceed(values);
  }
  values["minimum_number_of_calls"] ??= 1;
  if (values["sliding_window_type"] === "count") {
    values["minimum_number_of_calls"] = Math.min(
      values["minimum_number_of_calls"] as number,
      values["sliding_window_size"] as number,
    );
  }
  const hasRate = "failure_rate_threshold" in values || "slow_call_rate_threshold" in values;
  if (values["half_open_decision"] === "rate" && !hasRate) {
    Object.assign(values, { failure_rate_threshold: 0.5, minimum_number_of_calls: NEVER });
  }
  return policyOf(values as PolicyInput);
}

function windowOf(window: Record<string, unknown> | undefined): Record<string, unknown> {
  if (window === undefined) {
    return {};
  }
  if (window["type"] === "count") {
    const sizes = ["size", "size_n", "size_calls", "calls", "n"].filter((key) => key in window);
    assert.equal(sizes.length, 1, "a count window has one size");
    return { sliding_window_type: "count", sliding_window_size: window[sizes[0]!] };
  }
  const size = window["size_s"] as number;
  if (window["type"] === "tumbling") {
    return { sliding_window_size: size, sliding_window_panes: 1 };
  }
  assert.equal(window["type"], "time");
  const bucket = window["bucket_s"] as number | undefined;
  return { sliding_window_size: size, sliding_window_panes: bucket === undefined ? null : Math.round(size / bucket) };
}

/** `cmp: ">"` becomes `>=` with the next larger number. */
function exceed(values: Record<string, unknown>): void {
  for (const name of ["consecutive_failures", "failure_count"]) {
    if (name in values) {
      values[name] = (values[name] as number) + 1;
    }
  }
  for (const name of ["failure_rate_threshold", "slow_call_rate_threshold"]) {
    if (name in values && (values[name] as number) < 1) {
      values[name] = nextAfter(values[name] as number);
    }
  }
}

function nextAfter(value: number): number {
  const bits = new BigUint64Array(new Float64Array([value]).buffer);
  bits[0]! += 1n;
  return new Float64Array(bits.buffer)[0]!;
}
