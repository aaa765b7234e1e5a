/**
 * Refuse a tool, or a server, to a credential that it rejects.
 *
 * A call that fails with class `auth` says nothing about the tool, because others sign in well. It is counted here, by tool and
 * credential: after a few in a row, this credential is refused until it changes or a probe works. Other credentials go on. Nobody's
 * credential is kept, only a salted hash. Where it isn't known, the session stands for it, then the user, then the process.
 */
import { Breaker } from "../breaker/breaker.js";
import { policyOf, type ErrorClass, type Policy } from "../breaker/policy.js";
import { PASSING } from "../breaker/states.js";
import type { BreakerPermit, BreakerRejection, ResultKind, Status } from "../breaker/values.js";
import { SwitchgearError } from "../errors.js";
import { Rejection } from "../rejection.js";
import { saltedHash, type SaltedHash } from "../text/salted-hash.js";
import type { Caller } from "./caller.js";
import type { LocalCircuit } from "./local-circuits.js";

const MOST_RUNS = 4_096;
/** Runs that are looked at when an old one may be forgotten. */
const LOOKED_AT = 8;
/** A run that nothing was asked or told about for so long is forgotten: the session is gone, or the token is. */
const FORGET_S = 3_600;
/** The most characters of a credential to look at. */
const MOST_HASHED = 65_536;

/** The calls with one credential that a tool, or the tools of a server, rejected in a row. */
interface Run {
  /** Decides. Its failures are rejected calls. */
  readonly breaker: Breaker;
  readonly holder: string;
  /** The server, of the run of a tool too. Null without one. */
  readonly family: string | null;
  rejected: number;
  usedAt: number;
}

/** What a permit holds of the runs of its caller's credential. Report its end, or give it back. */
export type Held = readonly { readonly run: Run; readonly permit: BreakerPermit }[];

interface RunName {
  readonly key: string;
  readonly ofServer: boolean;
}

/** Return what the end of a call says about its credential: it was rejected, it was accepted, or nothing. */
export function credentialKind(status: Status, errorClass: ErrorClass | null): ResultKind {
  if (status === "error" && errorClass === "auth") {
    return "failure";
  }
  const accepted =
    (status === "success" && errorClass === null) || errorClass === "tool" || errorClass === "invalid_input";
  return accepted ? "success" : "ignored";
}

/** Return how many calls in a row the tool of a circuit may reject. Null if it refuses nobody. */
function limitOf({ breaker }: LocalCircuit): number | null {
  const off = breaker.state === "disabled" || breaker.state === "metrics_only";
  return off ? null : breaker.policy.consecutive_auth_failures;
}

/** @throws SwitchgearError The key is too short or too long. */
export function keyOf(key: string | Uint8Array | undefined): Uint8Array | undefined {
  const bytes = typeof key === "string" ? new TextEncoder().encode(key) : key;
  if (bytes !== undefined && !(bytes instanceof Uint8Array && bytes.length >= 1 && bytes.length <= 64)) {
    throw new SwitchgearError("parametersKey is impossible.", "Use 1 to 64 bytes.");
  }
  return bytes;
}

/** Counts rejected calls by tool and credential, and refuses. */
export class Credentials {
  /** By name. Those that were used longest ago come first. */
  readonly #runs = new Map<string, Run>();

  readonly #salted: SaltedHash;
  /** Whether other processes of the deployment have the same hashes. */
  readonly shared: boolean;

  /** @param key What hashes are salted with. Without it, by chance, so that no other process has the same. */
  constructor(
    key?: Uint8Array,
    private readonly most: number = MOST_RUNS,
  ) {
    this.#salted = saltedHash(key);
    this.shared = key !== undefined;
  }

  /** Return by what other processes know the credential of a call. Empty if there is none, or if they have other hashes. */
  readonly sharedOf = (caller: Caller): string =>
    this.shared && caller.credential !== "" ? this.holderOf(caller) : "";

  /** Nearly always 0: look before you ask. */
  get size(): number {
    return this.#runs.size;
  }

  /** Return what stands for the credential of a call. Empty for the process. */
  holderOf(caller: Caller): string {
    const found = [
      ["credential", caller.credential],
      ["session", caller.sessionId],
      ["user", caller.userId],
    ].find(([, text]) => text !== "");
    return found === undefined ? "" : this.#salted(`${found[0]} ${found[1]!.slice(0, MOST_HASHED)}`);
  }

  /**
   * Decide about a call that the circuits permit. Return the refusal, or what the permit holds. The run of a server that doesn't pass
   * decides alone, for all its tools.
   */
  admit(tool: string, family: string | null, caller: Caller, circuit: LocalCircuit, now: number): Held | Rejection {
    if (this.#runs.size === 0 || limitOf(circuit) === null) {
      return [];
    }
    this.#forgetOld(now);
    const asked: { run: Run; permit: BreakerPermit }[] = [];
    for (const { key, ofServer } of names(tool, family, this.holderOf(caller))) {
      const run = this.#runs.get(key);
      if (run === undefined) {
        continue;
      }
      this.#use(key, run, now);
      const answer = run.breaker.tryAcquire(now);
      if (!answer.ok) {
        this.giveBack(asked, now);
        return refusal(tool, run, answer, ofServer);
      }
      asked.push({ run, permit: answer });
      if (!PASSING.includes(run.breaker.state)) {
        break;
      }
    }
    return asked;
  }

  /** Return whether a call would be refused. It takes no probe. */
  wouldRefuse(tool: string, family: string | null, caller: Caller, circuit: LocalCircuit, now: number): boolean {
    if (this.#runs.size === 0 || limitOf(circuit) === null) {
      return false;
    }
    const found = names(tool, family, this.holderOf(caller))
      .map(({ key }) => this.#runs.get(key)?.breaker)
      .find((breaker) => breaker !== undefined && !PASSING.includes(breaker.state));
    return found?.wouldRefuse(now) ?? false;
  }

  /** Count the end of a call. `held` is what its permit held. */
  ended(
    call: { tool: string; family: string | null; caller: Caller; circuit: LocalCircuit | null; held: Held },
    kind: ResultKind,
    now: number,
  ): void {
    const { tool, family, caller, circuit, held } = call;
    if (kind !== "failure" && this.#runs.size === 0) {
      return;
    }
    const limit = circuit === null ? null : limitOf(circuit);
    if (limit === null) {
      this.giveBack(held, now);
      return;
    }
    const holder = this.holderOf(caller);
    const result = { kind, durationMs: 0, tokens: 0, reporter: "", retryAfterS: null, overdueMs: null, tool };
    for (const { key, ofServer } of names(tool, family, holder)) {
      let run = this.#runs.get(key);
      if (run === undefined) {
        if (kind !== "failure") {
          continue;
        }
        run = { breaker: new Breaker("", rules(limit, ofServer), now), holder, family, rejected: 0, usedAt: now };
      }
      this.#use(key, run, now);
      run.rejected += kind === "failure" ? 1 : 0;
      const permit = held.find((each) => each.run === run)?.permit ?? null;
      run.breaker.record(now, result, permit);
      const alone = permit !== null && permit.probe !== null;
      if (kind === "success" && run.breaker.state === "closed") {
        this.#runs.delete(key);
        if (alone && ofServer) {
          this.#free(run);
        }
      }
      if (alone) {
        break;
      }
    }
  }

  /** Give back what the permit of a call holds that wasn't made. */
  giveBack(held: Held, now: number): void {
    for (const { run, permit } of held) {
      run.breaker.release(permit, now);
    }
  }

  #use(key: string, run: Run, now: number): void {
    this.#runs.delete(key);
    if (this.#runs.size >= this.most) {
      this.#runs.delete(this.#runs.keys().next().value!);
    }
    this.#runs.set(key, run);
    run.usedAt = now;
  }

  /** Try the tools of a server again that accepts the credential again. */
  #free(server: Run): void {
    for (const [key, run] of this.#runs) {
      if (run.holder === server.holder && run.family === server.family) {
        this.#runs.delete(key);
      }
    }
  }

  #forgetOld(now: number): void {
    for (const [key, run] of [...this.#runs].slice(0, LOOKED_AT)) {
      if (now - run.usedAt <= FORGET_S) {
        return;
      }
      this.#runs.delete(key);
    }
  }
}

/** Return the names of a call's runs: that of its server first. */
function names(tool: string, family: string | null, holder: string): readonly RunName[] {
  const own = { key: JSON.stringify([tool, "", holder]), ofServer: false };
  return family === null ? [own] : [{ key: JSON.stringify(["", family, holder]), ofServer: true }, own];
}

/** A server's calls must be of two tools: a person may lack the right to one tool. */
function rules(limit: number, ofServer: boolean): Policy {
  return policyOf({
    consecutive_failures: limit,
    minimum_tools: ofServer ? 2 : 1,
    sliding_window_size: FORGET_S,
    backoff_multiplier: 2,
  });
}

function refusal(tool: string, run: Run, answer: BreakerRejection, ofServer: boolean): Rejection {
  return new Rejection({
    tool,
    state: answer.state,
    source: "credential",
    reason: `${run.rejected} call${run.rejected > 1 ? "s" : ""} in a row`,
    retryAfterS: answer.retryAfterS,
    scope: ofServer ? "family" : "tool",
    family: ofServer ? run.family : null,
    failures: run.rejected,
  });
}
