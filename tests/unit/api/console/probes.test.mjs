import assert from "node:assert/strict";
import { test } from "node:test";

import { clock } from "../../../../sinks/switchgear_api/console/assets/js/format.js";
import { unasked } from "../../../../sinks/switchgear_api/console/assets/js/probes.js";

const NOW = Date.parse("2026-11-26T12:00:30.000Z");
const DUE = "2026-11-26T12:00:10.000Z";
const CALLED = "2026-11-26T11:58:05.000Z";

test("a probe that nobody asks for says since when nobody called", () => {
  const since = `nobody has called since ${clock(CALLED, NOW)}`;
  assert.equal(
    unasked({ next_probe_at: DUE, last_call_at: CALLED }, NOW),
    since,
  );
  assert.equal(
    unasked({ next_probe_at: null, last_call_at: CALLED }, NOW),
    since,
    "half open",
  );
  assert.equal(
    unasked({ next_probe_at: DUE, last_call_at: null }, NOW),
    "nobody has called in the last hour",
  );
});

test("a call that was refused just before the probe was due asked for none, one after it did", () => {
  const at = (iso) => unasked({ next_probe_at: DUE, last_call_at: iso }, NOW);
  assert.match(at("2026-11-26T12:00:11.000Z"), /^nobody has called since/);
  assert.equal(at("2026-11-26T12:00:12.000Z"), "asked for, no answer yet");
});

test("without the time of the last call nothing is said about it", () => {
  assert.equal(unasked({ next_probe_at: DUE }, NOW), "");
});
