import assert from "node:assert/strict";
import { test } from "node:test";

import {
  address,
  parse,
  safeNext,
  toolAddress,
} from "../../../../sinks/switchgear_api/console/assets/js/address.js";

test("a tool's name survives its address, whatever its letters", () => {
  for (const name of [
    "mcp:weather:get",
    "a/b",
    "50%",
    "<script>",
    "ä ö?x=1#y",
  ]) {
    const [path, query = ""] = toolAddress(name, { hours: 6 }).split("?");
    assert.deepEqual(parse(path, query), {
      page: "tool",
      tool: name,
      params: { hours: "6" },
    });
  }
});

test("empty parameters are left out of an address", () => {
  assert.equal(
    address("/calls", { tool: "", user: null, text: "a b" }),
    "/calls?text=a+b",
  );
  assert.equal(parse("/nothing", "").page, "missing");
});

test("a login goes on to a page of this site only", () => {
  for (const next of [
    "//evil.example",
    "//[",
    "https://evil.example",
    "/\\evil.example",
    "javascript:alert(1)",
    "/\t/evil.example",
    undefined,
    "",
  ]) {
    assert.equal(safeNext(next), "/");
  }
  assert.equal(safeNext("/calls?tool=a"), "/calls?tool=a");
});
