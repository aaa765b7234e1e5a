/** Tools that reject a credential refuse that credential, and no other. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CircuitOpenError, CredentialRefusedError, META_KEY, Switchgear, type LocalOptions } from "../src/index.js";
import { Credentials } from "../src/guard/credentials.js";
import { callerOf, type CallerIds } from "../src/guard/caller.js";
import { LocalCircuit } from "../src/guard/local-circuits.js";
import { Breaker } from "../src/breaker/breaker.js";
import { LOCAL_DEFAULT } from "../src/breaker/policy.js";
import { saltedHash } from "../src/text/salted-hash.js";
import { TestClock } from "./support/clock.js";

const TOKEN = "Bearer eyJhbGciOi-very-secret";

class Unauthorized extends Error {
  readonly status = 401;
}

function make(options: LocalOptions = {}): { gear: Switchgear; clock: TestClock } {
  const clock = new TestClock();
  return { gear: Switchgear.local({ clock, ...options }), clock };
}

/** Call a tool with tokens of which it accepts `valid`, and return how the calls ended. */
async function ends(
  gear: Pick<Switchgear, "guard">,
  tokens: readonly string[],
  valid = "",
  tool = "weather",
): Promise<string[]> {
  const call = gear.guard(
    tool,
    async (token: string) => {
      if (token !== valid) {
        throw new Unauthorized("the token has expired");
      }
      return "sunny";
    },
    { caller: (token) => ({ credential: token }) },
  );
  const found: string[] = [];
  for (const token of tokens) {
    found.push(await call(token).catch((error: Error) => error.constructor.name));
  }
  return found;
}

const many = (token: string, times: number): string[] => Array.from({ length: times }, () => token);

describe("a tool that rejects a credential", () => {
  it("is called three times of two hundred", async () => {
    const { gear } = make();
    const found = await ends(gear, many(TOKEN, 200));
    assert.equal(found.filter((each) => each === "Unauthorized").length, 3);
    assert.equal(found.filter((each) => each === "CredentialRefusedError").length, 197);
    assert.deepEqual(gear.status().local, {});
  });

  it("goes on for other credentials, and tries a new token at once", async () => {
    const { gear } = make();
    await ends(gear, many(TOKEN, 4));
    assert.deepEqual(await ends(gear, ["valid", TOKEN, "valid"], "valid"), [
      "sunny",
      "CredentialRefusedError",
      "sunny",
    ]);
  });

  it("is given back by a probe that works, after a wait that doubles", async () => {
    const { gear, clock } = make();
    await ends(gear, many(TOKEN, 4));
    clock.advance(60);
    assert.deepEqual(await ends(gear, [TOKEN, TOKEN]), ["Unauthorized", "CredentialRefusedError"]);
    clock.advance(119);
    assert.deepEqual(await ends(gear, [TOKEN], TOKEN), ["CredentialRefusedError"]);
    clock.advance(1);
    assert.deepEqual(await ends(gear, [TOKEN, TOKEN], TOKEN), ["sunny", "sunny"]);
  });

  it("tells the model to sign in again, and programs by class and code", async () => {
    const { gear } = make();
    await ends(gear, many(TOKEN, 3));
    const error = await gear.permit("weather", { credential: TOKEN }).then(
      () => assert.fail("it was permitted"),
      (thrown: unknown) => thrown,
    );
    assert.ok(error instanceof CredentialRefusedError && error instanceof CircuitOpenError);
    assert.equal(
      error.text,
      "Your credentials for the tool weather were rejected 3 times in a row, so it was not called. " +
        "Sign in again, or use another tool.",
    );
    assert.equal(error.retryAfterS, 60);
  });

  it("refuses the whole server after two of its tools", async () => {
    const { gear, clock } = make();
    await ends(gear, many(TOKEN, 3), "", "mcp:s:a");
    assert.deepEqual(await ends(gear, [TOKEN], TOKEN, "mcp:s:b"), ["sunny"]);
    await ends(gear, many(TOKEN, 3), "", "mcp:s:b");
    await ends(gear, many(TOKEN, 1), "", "mcp:s:c");
    const refused = await gear.tryAcquire("mcp:s:d", { credential: TOKEN });
    assert.ok(!refused.allowed);
    assert.deepEqual([refused.source, refused.family, refused.scope], ["credential", "mcp:s", "family"]);
    assert.match(refused.text, /^Your credentials for the server mcp:s of the tool mcp:s:d were rejected/);
    clock.advance(60);
    assert.deepEqual(await ends(gear, [TOKEN], TOKEN, "mcp:s:d"), ["sunny"]);
    assert.deepEqual(await ends(gear, [TOKEN], TOKEN, "mcp:s:a"), ["sunny"]);
  });

  it("takes the session for the credential, then the user, then the process", async () => {
    const { gear } = make();
    const reject = async (ids: CallerIds): Promise<void> => {
      const permit = await gear.permit("t", ids);
      permit.failure(new Unauthorized("no"));
    };
    for (const ids of [{ sessionId: "s" }, { userId: "u" }, {}]) {
      await reject(ids);
      await reject(ids);
      await reject(ids);
      await assert.rejects(gear.permit("t", ids), CredentialRefusedError);
    }
    assert.ok((await gear.tryAcquire("t", { sessionId: "other", userId: "u" })).allowed);
    assert.ok((await gear.tryAcquire("t", { userId: "other" })).allowed);
    assert.ok(gear.isOpen("t", { userId: "u" }));
    assert.ok(!gear.isOpen("t", { userId: "other" }));
  });

  it("takes the credential of a session for its calls", async () => {
    const { gear } = make();
    for (const sessionId of ["1", "2", "3"]) {
      const permit = await gear.session({ sessionId, credential: TOKEN }).permit("t");
      permit.failure(new Unauthorized("no"));
    }
    await assert.rejects(gear.session({ credential: TOKEN }).permit("t"), CredentialRefusedError);
    assert.ok((await gear.session({ credential: "other" }).tryAcquire("t")).allowed);
  });

  it("leaves no probe behind that is given back or ignored", async () => {
    const { gear, clock } = make();
    await ends(gear, many(TOKEN, 3));
    clock.advance(60);
    (await gear.permit("weather", { credential: TOKEN })).release();
    (await gear.permit("weather", { credential: TOKEN })).ignore();
    assert.deepEqual(await ends(gear, [TOKEN, TOKEN], TOKEN), ["sunny", "sunny"]);
  });

  it("counts results that say so, and refuses without a fallback", async () => {
    const { gear } = make();
    gear.guard("backup", async () => "from the backup");
    const result = {
      isError: true,
      content: [],
      _meta: { [META_KEY]: { class: "governance", code: "auth_required" } },
    };
    const call = gear.guard("weather", async (): Promise<unknown> => result, { fallback: "backup" });
    for (let time = 0; time < 3; time += 1) {
      assert.equal(await call(), result);
    }
    await assert.rejects(call(), CredentialRefusedError);
  });

  it("refuses nobody where the policy says so", async () => {
    for (const localPolicies of [{ consecutive_auth_failures: null }, { mode: "metrics_only" as const }]) {
      const { gear } = make({ localPolicies });
      assert.deepEqual(await ends(gear, many(TOKEN, 10)), many("Unauthorized", 10));
    }
  });
});

describe("the table of credentials", () => {
  const circuit = (): LocalCircuit => new LocalCircuit(new Breaker("t", LOCAL_DEFAULT, 0));

  it("is bounded, keeps what was used last, and forgets what nobody asks about", () => {
    const found = new Credentials(undefined, 100);
    const call = (credential: string, now: number): boolean => {
      const caller = callerOf({ credential });
      const held = found.admit("t", null, caller, circuit(), now);
      if (!Array.isArray(held)) {
        return false;
      }
      found.ended({ tool: "t", family: null, caller, circuit: circuit(), held }, "failure", now);
      return true;
    };
    for (let number = 0; number < 1_000; number += 1) {
      call(String(number), 0);
      if (number % 10 === 0) {
        call("mine", 0);
      }
    }
    assert.equal(found.size, 100);
    assert.equal(call("mine", 0), false);
    for (let time = 0; time < 20; time += 1) {
      call("new", 3_601);
    }
    assert.equal(found.size, 1);
  });

  it("names holders by salted hashes", () => {
    const [one, other] = [saltedHash(), saltedHash()];
    assert.notEqual(one(TOKEN), other(TOKEN));
    assert.equal(one(TOKEN), one(TOKEN));
    const seen = new Set(Array.from({ length: 10_000 }, (_, number) => one(String(number))));
    assert.equal(seen.size, 10_000);
    assert.match(one("\ud800"), /^[0-9a-f]{24}$/);
    const found = new Credentials();
    const names = [{ credential: "x" }, { sessionId: "x" }, { userId: "x" }].map((ids) =>
      found.holderOf(callerOf(ids)),
    );
    assert.equal(new Set(names).size, 3);
    assert.ok(names.every((name) => /^[0-9a-f]{24}$/.test(name)));
    assert.equal(found.holderOf(callerOf({})), "");
  });
});
