import assert from "node:assert/strict";
import { test } from "node:test";

import {
  listing,
  matcher,
} from "../../../../sinks/switchgear_api/console/assets/js/listing.js";

const tool = (name, calls, family = null) => ({
  tool: name,
  family,
  state: "closed",
  stats: { calls, errors: 0, error_rate: 0, refused: 0 },
});
const TOOLS = [
  tool("calculator", 5),
  tool("mcp:web:fetch", 50, "mcp:web"),
  tool("mcp:web:search", 9, "mcp:web"),
  tool("zip", 20),
];
const shown = (rows) =>
  rows.map((row) => (row.kind === "family" ? `[${row.name}]` : row.tool.tool));

test("a filter is a part of a name, or a glob over whole names", () => {
  assert.deepEqual(
    ["WEB", "mcp:*", "mcp", "*:f?tch", "(("].map(
      (text) => TOOLS.filter((each) => matcher(text)(each.tool)).length,
    ),
    [2, 2, 2, 1, 0],
  );
});

test("tools of a server stand together below its name, at the place of the first of them", () => {
  assert.deepEqual(shown(listing(TOOLS, new Map(), { grouped: true })), [
    "[mcp:web]",
    "mcp:web:fetch",
    "mcp:web:search",
    "zip",
    "calculator",
  ]);
});

test("a column sorts, most first for numbers, and turns around", () => {
  assert.deepEqual(shown(listing(TOOLS, new Map(), { sort: "calls" })), [
    "mcp:web:fetch",
    "zip",
    "mcp:web:search",
    "calculator",
  ]);
  assert.deepEqual(shown(listing(TOOLS, new Map(), { sort: "-calls" })), [
    "calculator",
    "mcp:web:search",
    "zip",
    "mcp:web:fetch",
  ]);
  assert.deepEqual(
    shown(listing(TOOLS, new Map(), { sort: "tool", state: "open" })),
    [],
  );
});
