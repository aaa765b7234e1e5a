import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { PACKAGE } from "./support/scenarios.js";

let folder: string;
let tarball: string;

function run(command: string, ...args: string[]): string {
  return execFileSync(command, args, { cwd: folder, encoding: "utf8", timeout: 120_000 });
}

function tool(name: string): string {
  return join(PACKAGE, "node_modules", ".bin", name);
}

before(() => {
  folder = mkdtempSync(join(tmpdir(), "switchgear-tarball-"));
  const [packed] = JSON.parse(run("npm", "pack", "--json", "--ignore-scripts", PACKAGE)) as [{ filename: string }];
  tarball = join(folder, packed.filename);
  writeFileSync(join(folder, "package.json"), '{ "type": "module", "private": true }');
  run("npm", "install", "--no-audit", "--no-fund", tarball);
});
after(() => rmSync(folder, { recursive: true }));

describe("the packed package", () => {
  it("has no findings of publint", () => {
    assert.match(run(tool("publint"), "run", "--strict", tarball), /All good!/);
  });

  it("has types that every way of resolving modules finds; it has no CommonJS", () => {
    const found = run(tool("attw"), "--profile", "esm-only", "--format", "table-flipped", "--no-emoji", tarball); // it fails with a finding
    assert.match(found, /@switchgear\/client\/langchain/);
  });

  it("holds what it runs and nothing else", () => {
    const files = run("tar", "-tf", tarball).trim().split("\n");
    const built = /^package\/(LICENSE$|dist\/[\w/-]+\.(js|d\.ts)$)/; // the license is there if it was packed with its scripts
    const others = files.filter((file) => !built.test(file)).sort();
    assert.deepEqual(others, ["package/README.md", "package/package.json"]);
  });

  it("guards in a clean folder, in strict TypeScript too, and asks for no framework", () => {
    mkdirSync(join(folder, "app"));
    writeFileSync(
      join(folder, "app", "main.ts"),
      `import { Switchgear } from "@switchgear/client";
       import { wrapTools } from "@switchgear/client/ai";
       import { guardClient } from "@switchgear/client/mcp";
       import { InMemoryGateway } from "@switchgear/client/testing";
       const gateway = new InMemoryGateway();
       const gear: Switchgear = gateway.gear();
       const add = gear.guard("add", async (one: number, other: number) => one + other);
       const sum: number = await add(1, 2);
       await gateway.openCircuit("add");
       const refused: unknown = await add(1, 2).catch((error: unknown) => error);
       const client = guardClient(gear, { callTool: async () => ({}) }, { server: "maps" });
       console.log(sum, String(refused), Object.keys(wrapTools(gear, {})).length, typeof client.callTool);
       await gateway.close();`,
    );
    const strict = ["--strict", "--skipLibCheck", "false", "--module", "nodenext", "--target", "es2022"];
    run(tool("tsc"), ...strict, "--lib", "es2022,dom", "--types", "", "--ignoreConfig", "app/main.ts");
    assert.match(
      run(process.execPath, "app/main.js"),
      /^3 CircuitOpenError: The tool add is unavailable \(circuit forced open\)\..* 0 function$/m,
    );
    assert.deepEqual(run("ls", "node_modules").trim().split("\n"), ["@switchgear"]);
  });
});
