/** The answers of the Python client to the same questions. `parity/generate.py` writes them. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { Breaker } from "../src/breaker/breaker.js";
import { solution, solve } from "../src/breaker/cusum.js";
import {
  LOCAL_DEFAULT,
  LOCAL_FAMILY_DEFAULT,
  policyOf,
  type ErrorClass,
  type PolicyInput,
} from "../src/breaker/policy.js";
import { admits, phaseOf } from "../src/breaker/ramp.js";
import { waitS } from "../src/breaker/states.js";
import {
  familyResultKind,
  resultKind,
  type BreakerPermit,
  type ResultKind,
  type Status,
} from "../src/breaker/values.js";
import { byMcpCode } from "../src/classify/by-code.js";
import { classOfStatus } from "../src/http-status.js";
import { outageInText, refusalInText } from "../src/classify/by-text.js";
import { classifyResult } from "../src/classify/result.js";
import { isRefusal, toolFailure } from "../src/classify/tool-failure.js";
import { retryAfterIn, waitInData } from "../src/classify/waits.js";
import { circuitId, readCircuitId, type CircuitScope } from "../src/circuit-ids.js";
import { familyFinder } from "../src/families.js";
import { readView } from "../src/fleet/view.js";
import { callerOf } from "../src/guard/caller.js";
import { Credentials, keyOf } from "../src/guard/credentials.js";
import { hostOf, targetOf } from "../src/guard/targets.js";
import { noticeOf } from "../src/prompts/notice.js";
import { listedName } from "../src/prompts/tool-name.js";
import { Rejection, type RejectionValues } from "../src/rejection.js";
import { matches } from "../src/text/glob.js";
import { dataForModel, errorInWords, nameForModel, ruleInWords } from "../src/model-text.js";
import { oneLine } from "../src/text/one-line.js";
import { redact } from "../src/text/redact.js";
import { shortNumber } from "../src/text/short-number.js";
import { PACKAGE } from "./support/scenarios.js";

interface Answers {
  traces: { policy: PolicyInput; steps: [unknown[], ...unknown[]][] }[];
  defaults: Record<string, unknown>[];
  cusum: [number, number, number, [number, number, number, number]][];
  waits: [number, number][];
  admits: [number, number, number, boolean][];
  kinds: [Status, ErrorClass | null, string, string][];
  rejections: [Record<string, unknown>, string][];
  tool_failures: [Record<string, unknown>, Record<string, unknown>][];
  credentials: [string, string, string][];
  limits: [string, boolean][];
  notices: [{ tool: string; instead?: string[]; family?: boolean }[], string][];
  messages: [string, string][];
  lines: [string, number, string][];
  model_names: [string, string, string][];
  model_errors: [string | null, string | null, string][];
  model_rules: [string, string][];
  statuses: [number, string][];
  mcp: [number, string][];
  texts: [string, string | null, boolean][];
  results: [unknown, string | null, string | null][];
  names: [unknown, string | null][];
  headers: [Record<string, string>, number | null][];
  asked: [unknown, number | null][];
  globs: [string, string, boolean][];
  families: [string, string, string | null][];
  hosts: [string, string][];
  targets: [string, Record<string, unknown>, string][];
  circuit_ids: [string, CircuitScope, string, string][];
  causes: [Record<string, unknown>, string][];
  numbers: [number, string, string][];
}

const answers = JSON.parse(readFileSync(join(PACKAGE, "test", "parity", "answers.json"), "utf8")) as Answers;

function near(found: unknown, expected: unknown, message: string): void {
  if (typeof found === "number" && typeof expected === "number") {
    assert.ok(
      Math.abs(found - expected) <= 1e-9 * Math.max(1, Math.abs(expected)),
      `${message}: ${found} is not ${expected}`,
    );
  } else {
    assert.deepEqual(found ?? null, expected ?? null, message);
  }
}

function rejectionOf(values: Record<string, unknown>): Rejection {
  const { retry_after_s: retryAfterS = null, last_error: lastError = null, ...rest } = values;
  const { last_error_class: lastErrorClass = null, include_last_error: includeLastError = false } = values;
  return new Rejection({
    ...rest,
    retryAfterS,
    lastError,
    lastErrorClass,
    includeLastError,
  } as unknown as RejectionValues);
}

describe("the same answers as the Python client", () => {
  for (const [number, { policy, steps }] of answers.traces.entries()) {
    it(`a breaker under random policy ${number} takes the same steps`, () => {
      const breaker = new Breaker("traced", policyOf(policy), 0);
      const permits = new Map<string, BreakerPermit>();
      for (const [at, step] of steps.entries()) {
        const [[op, now, name, ...rest], state, openUntil, generation, attempt, share, probes, counts, cause] =
          step as [
            [string, number, string, ...unknown[]],
            string,
            number | null,
            number,
            number,
            number,
            number,
            number[],
            unknown[] | null,
          ];
        const where = `step ${at} ${JSON.stringify(step[0])} ${JSON.stringify(policy)}`;
        if (op === "acquire") {
          const answer = breaker.tryAcquire(now);
          near(answer.ok ? true : answer.retryAfterS, rest[0], where);
          if (answer.ok) {
            permits.set(name, answer);
          }
        } else if (op === "release") {
          breaker.release(permits.get(name)!, now);
        } else {
          const [kind, durationMs, tokens, reporter, retryAfterS, tool, overdueMs, credential] = rest as [
            ResultKind,
            number,
            number,
            string,
            number | null,
            string,
            number | null,
            string,
          ];
          const result = { kind, durationMs, tokens, reporter, retryAfterS, tool, overdueMs, credential };
          breaker.record(now, result, permits.get(name)!);
        }
        const found = breaker.counts(now);
        const { calls, failed, slow, ignored, rejected, wastedTokens, consecutiveFailures } = found;
        assert.equal(breaker.state, state, where);
        near(breaker.openUntil, openUntil, where);
        assert.deepEqual(
          [breaker.generation, breaker.attempt, breaker.admittedShare, breaker.remainingProbes],
          [generation, attempt, share, probes],
          where,
        );
        assert.deepEqual([calls, failed, slow, ignored, rejected, wastedTokens, consecutiveFailures], counts, where);
        const own = breaker.cause;
        assert.equal(own?.rule ?? null, cause?.[0] ?? null, where);
        for (const [place, value] of [own?.value, own?.threshold, own?.sample, own?.reason].entries()) {
          near(value, cause?.[place + 1], where);
        }
      }
    });
  }

  it("the default policies have the same rules", () => {
    for (const [place, policy] of [LOCAL_DEFAULT, LOCAL_FAMILY_DEFAULT].entries()) {
      const sorted = { ...policy, counted_error_classes: [...policy.counted_error_classes].sort() };
      assert.deepEqual(sorted, answers.defaults[place]);
    }
  });

  it("a CUSUM has the same weights and height", () => {
    for (const [tolerable, broken, calls, [up, down, height, unit]] of answers.cusum) {
      const found = solve({
        tolerable_failure_rate: tolerable,
        broken_failure_rate: broken,
        calls_between_false_opens: calls,
      });
      assert.deepEqual([found.up, found.down, found.height], [up, down, height]);
      near(found.unit, unit, "unit");
    }
  });

  it("the known detector of the default rule is its solution", () => {
    const rule = LOCAL_DEFAULT.cusum!;
    assert.deepEqual(solve(rule), solution(rule));
  });

  it("a tool that fails four of five calls opens the local default at the 22nd", () => {
    const breaker = new Breaker("tool", LOCAL_DEFAULT, 0);
    for (const [at, kind] of [..."FFFFS".repeat(4), "F", "F"].entries()) {
      assert.equal(breaker.state, "closed", `before call ${at + 1}`);
      const failed: ResultKind = kind === "F" ? "failure" : "success";
      const call = {
        kind: failed,
        durationMs: 1,
        tokens: 0,
        reporter: "",
        retryAfterS: null,
        tool: "",
        overdueMs: null,
      };
      breaker.record(at, call, null);
    }
    assert.equal(breaker.state, "open");
    assert.equal(breaker.cause?.rule, "cusum");
  });

  it("waits grow and are spread in the same way", () => {
    const policy = policyOf({ backoff_multiplier: 2, jitter: 0.5, wait_duration_in_open_state_s: 3 });
    for (const [attempt, wait] of answers.waits) {
      near(waitS("tool", attempt, policy), wait, `attempt ${attempt}`);
    }
  });

  it("a recovering circuit admits the same calls of a process", () => {
    for (const [n, share, phase, admitted] of answers.admits) {
      assert.equal(phaseOf("p@host"), phase);
      assert.equal(admits(n, share, phase), admitted);
    }
  });

  it("each status and class counts in the same way for a tool and for a family", () => {
    for (const [status, errorClass, kind, familyKind] of answers.kinds) {
      assert.equal(resultKind(status, errorClass, LOCAL_DEFAULT), kind, `${status} ${errorClass}`);
      assert.equal(familyResultKind(status, errorClass, LOCAL_FAMILY_DEFAULT), familyKind, `${status} ${errorClass}`);
    }
  });

  it("a refusal has the same text, and is known as one", () => {
    for (const [values, text] of answers.rejections) {
      assert.equal(rejectionOf(values).text, text);
      assert.ok(isRefusal(text));
    }
  });

  it("a refusal has the same toolFailure", () => {
    for (const [values, failure] of answers.tool_failures) {
      assert.deepEqual(toolFailure(rejectionOf(values), "id", 1000.5), failure);
    }
  });

  it("the notice is the same", () => {
    for (const [tools, text] of answers.notices) {
      const given = tools.map(({ tool, instead = [], family = false }) => ({ tool, instead, family }));
      assert.equal(noticeOf(given, { b: "B!" }), text);
    }
  });

  it("messages lose the same secrets", () => {
    for (const [text, redacted] of answers.messages) {
      assert.equal(redact(text), redacted);
      assert.equal(redact(redact(text)), redact(text));
    }
  });

  it("a text on one line is the same", () => {
    for (const [text, most, line] of answers.lines) {
      assert.equal(oneLine(text, most), line);
    }
  });

  it("names, errors and rules are told to models in the same words", () => {
    for (const [name, shown, data] of answers.model_names) {
      assert.equal(nameForModel(name), shown, JSON.stringify(name));
      assert.equal(dataForModel(name, 60), data, JSON.stringify(name));
    }
    for (const [errorClass, error, words] of answers.model_errors) {
      assert.equal(errorInWords(errorClass, error), words, `${errorClass} ${error}`);
    }
    for (const [reason, sentence] of answers.model_rules) {
      assert.equal(ruleInWords(reason), sentence, reason);
    }
  });

  it("each HTTP status and MCP code has the same class", () => {
    for (const [status, errorClass] of answers.statuses) {
      assert.equal(classOfStatus(status), errorClass, String(status));
    }
    for (const [code, errorClass] of answers.mcp) {
      assert.equal(byMcpCode({ name: "McpError", code })?.errorClass, errorClass, String(code));
    }
  });

  it("a text reports the same outage", () => {
    for (const [text, errorClass, refusal] of answers.texts) {
      assert.equal(outageInText(text), errorClass, text);
      assert.equal(isRefusal(text), refusal, text);
      assert.equal(refusalInText(text), refusal ? "policy" : null, text);
    }
  });

  it("a glob covers the same names", () => {
    for (const [glob, name, covers] of answers.globs) {
      assert.equal(matches(glob, name), covers, `${glob} ${name}`);
    }
  });

  it("a result has the same class", () => {
    for (const [result, errorClass, byText] of answers.results) {
      assert.equal(classifyResult(result)?.errorClass ?? null, errorClass, JSON.stringify(result));
      assert.equal(classifyResult(result, outageInText)?.errorClass ?? null, byText, JSON.stringify(result));
    }
  });

  it("an item of a tool list has the same name", () => {
    for (const [tool, name] of answers.names) {
      assert.equal(listedName(tool), name, JSON.stringify(tool));
    }
  });

  it("headers ask to wait as long", () => {
    for (const [headers, seconds] of answers.headers) {
      near(retryAfterIn(headers, 1_445_412_470), seconds, JSON.stringify(headers));
      near(retryAfterIn(new Headers(headers), 1_445_412_470), seconds, JSON.stringify(headers));
    }
  });

  it("data asks to wait as long", () => {
    for (const [data, seconds] of answers.asked) {
      near(waitInData(data, 1_445_412_470), seconds, JSON.stringify(data));
    }
  });

  it("a tool belongs to the same family", () => {
    for (const [pattern, tool, family] of answers.families) {
      assert.equal(familyFinder(pattern)(tool)?.name ?? null, family, `${pattern} ${tool}`);
    }
  });

  it("a circuit has the same id, and the id says the same", () => {
    for (const [name, scope, whose, id] of answers.circuit_ids) {
      assert.equal(circuitId(name, scope, whose), id);
      assert.deepEqual(readCircuitId(id), { name, scope, whose });
    }
  });

  it("a call is about the same target", () => {
    for (const [url, host] of answers.hosts) {
      assert.equal(hostOf(url), host, JSON.stringify(url.slice(0, 80)));
    }
    for (const [rule, named, target] of answers.targets) {
      assert.equal(targetOf(rule, named), target, `${rule} ${JSON.stringify(named).slice(0, 80)}`);
    }
  });

  it("a record's cause has the same words", () => {
    for (const [cause, words] of answers.causes) {
      const record = { circuit_id: "t", tool_name: "t", state: "open", version: 1, generation: 1, cause };
      assert.equal(readView(record)?.reason, words);
    }
  });

  it("a credential has the same hash, with the same key", () => {
    for (const [key, credential, hash] of answers.credentials) {
      const found = new Credentials(keyOf(key));
      assert.equal(found.sharedOf(callerOf({ credential })), credential === "" ? "" : hash, credential.slice(0, 80));
    }
  });

  it("a text states a limit, or none", () => {
    for (const [text, isLimit] of answers.limits) {
      const policy = (): unknown => policyOf({ pace_limit: text });
      if (isLimit) {
        policy();
      } else {
        assert.throws(policy, /pace_limit/, JSON.stringify(text));
      }
    }
  });

  it("a short number is the same", () => {
    for (const [value, six, four] of answers.numbers) {
      assert.equal(shortNumber(value), six);
      assert.equal(shortNumber(value, 4), four);
    }
  });
});
