/** Records that released versions of the worker have written are still read. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { readView } from "../src/fleet/view.js";
import { REPOSITORY } from "./support/scenarios.js";

const GOLDEN = join(REPOSITORY, "tests", "unit", "golden");
const NAMES = readdirSync(GOLDEN, { recursive: true, encoding: "utf8" }).filter(
  (name) => /circuit_\w+\.json$/.test(name) && !name.endsWith(".read.json"),
);

interface Circuit {
  readonly cause: Readonly<Record<string, unknown>>;
  readonly leases: readonly Readonly<Record<string, string>>[];
  readonly open_until: string | null;
  readonly [field: string]: unknown;
}

const seconds = (text: string | null | undefined) => (text ? Date.parse(text) / 1000 : null);

describe("stored circuits", () => {
  it("there are some", () => assert.ok(NAMES.length >= 9));

  for (const name of NAMES) {
    it(`${name} has what the worker's model reads`, () => {
      const wanted = JSON.parse(readFileSync(join(GOLDEN, name.replace(/json$/, "read.json")), "utf8")) as Circuit;
      const view = readView(JSON.parse(readFileSync(join(GOLDEN, name), "utf8")));
      assert.ok(view !== null);
      assert.deepEqual(
        [view.circuitId, view.tool, view.scope, view.state, view.version, view.generation, view.mode, view.fallback],
        ["circuit_id", "tool_name", "scope", "state", "version", "generation", "mode", "fallback"].map(
          (field) => wanted[field],
        ),
      );
      assert.deepEqual(
        [view.admittedShare, view.permitsLeft, view.lastError, view.lastErrorClass, view.target, view.overdueAfterMs],
        ["admitted_share", "permits_left", "last_error", "last_error_class", "target", "overdue_after_ms"].map(
          (field) => wanted[field],
        ),
      );
      assert.equal(view.openUntil, seconds(wanted.open_until));
      assert.deepEqual(
        view.leases,
        wanted.leases.map((lease) => ({ emitterId: lease["emitter_id"], expiresAt: seconds(lease["expires_at"]) })),
      );
      assert.deepEqual([view.causeRule, view.causeReason ?? null], [wanted.cause["rule"], wanted.cause["reason"]]);
    });
  }
});
