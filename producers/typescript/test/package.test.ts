import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { describe, it } from "node:test";
import { PACKAGE } from "./support/scenarios.js";

const SRC = join(PACKAGE, "src");
/** From the bottom to the top: a file imports only from its own layer and those before it. */
const LAYERS = [
  "errors",
  "text",
  "circuit-ids",
  "breaker",
  "families",
  "http-status",
  "model-text",
  "rejection",
  "tool-list",
  "classify",
  "wire",
  "emitter",
  "fleet",
  "guard",
  "prompts",
  "connection",
  "gear",
  "switchgear",
  "ai",
  "langchain",
  "mcp",
  "testing",
  "index",
];

function files(): string[] {
  return readdirSync(SRC, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".ts"));
}

function imports(file: string): string[] {
  const text = readFileSync(join(SRC, file), "utf8");
  return [...text.matchAll(/from "([^"]+)"/g)].map((found) => found[1]!);
}

function ownImports(file: string): string[] {
  return imports(file).filter((from) => from.startsWith("."));
}

function layerOf(file: string): number {
  const found = LAYERS.indexOf(file.split(/[\\/]/)[0]!.replace(/\.ts$/, ""));
  assert.ok(found >= 0, `${file} is in no layer`);
  return found;
}

describe("the package", () => {
  it("each entry point of the exports can be imported as it is built", async () => {
    const { exports } = JSON.parse(readFileSync(join(PACKAGE, "package.json"), "utf8")) as {
      exports: Record<string, { default?: string; types?: string } | string>;
    };
    const names: Record<string, string[]> = {};
    for (const [name, target] of Object.entries(exports)) {
      if (typeof target === "object") {
        const module = (await import(join(PACKAGE, target.default!))) as object;
        names[name] = Object.keys(module);
        assert.ok(readFileSync(join(PACKAGE, target.types!), "utf8").length > 0);
      }
    }
    assert.ok(names["."]!.includes("Switchgear"));
    assert.deepEqual(names["./ai"]!.sort(), ["prepareStep", "refusedCalls", "wrapTools"]);
    assert.deepEqual(names["./langchain"]!.sort(), ["switchgearMiddleware", "wrapTools"]);
    assert.deepEqual(names["./mcp"], ["guardClient"]);
  });

  it("has no runtime dependencies, and imports nothing but its own files", () => {
    const { dependencies = {} } = JSON.parse(readFileSync(join(PACKAGE, "package.json"), "utf8")) as {
      dependencies?: object;
    };
    assert.deepEqual(dependencies, {});
    for (const file of files()) {
      assert.deepEqual(
        imports(file).filter((from) => !from.startsWith(".")),
        file === "langchain.ts" ? ["@langchain/core/messages"] : [],
        file,
      );
    }
    assert.deepEqual(
      files().filter((file) => file !== "langchain.ts" && imports(file).some((from) => from.includes("langchain"))),
      [],
      "no other entry point needs the framework",
    );
  });

  it("the lock file names no registry", () => {
    for (const folder of [PACKAGE, join(PACKAGE, "runtimes")]) {
      assert.doesNotMatch(
        readFileSync(join(folder, "package-lock.json"), "utf8"),
        /"resolved"|https?:\/\/[^"]*registry/,
      );
    }
  });

  it("imports go one way through the layers, without cycles", () => {
    const graph = new Map(
      files().map((file) => [
        file,
        ownImports(file).map((from) => relative(SRC, join(SRC, dirname(file), from)).replace(/\.js$/, ".ts")),
      ]),
    );
    for (const [file, targets] of graph) {
      for (const target of targets) {
        assert.ok(layerOf(target) <= layerOf(file), `${file} imports ${target}`);
      }
    }
    const done = new Set<string>();
    const visit = (file: string, path: readonly string[]): void => {
      assert.ok(!path.includes(file), [...path, file].join(" -> "));
      if (!done.has(file)) {
        graph.get(file)!.forEach((target) => visit(target, [...path, file]));
        done.add(file);
      }
    };
    [...graph.keys()].forEach((file) => visit(file, []));
  });

  it("an entry point adds to a program what the README says, and less than 48 kB", () => {
    const printed = execFileSync(process.execPath, [join(PACKAGE, "scripts", "size.mjs")], { encoding: "utf8" });
    const sizes = new Map(
      printed
        .trim()
        .split("\n")
        .map((line) => line.split(" ") as [string, string]),
    );
    assert.deepEqual([...sizes.keys()], ["index", "ai", "langchain", "mcp"]);
    sizes.forEach((size, entry) => assert.ok(Number(size) < 48_000, `${entry}: ${size} bytes`));
    const [, said] = /(\d+) kB minified and compressed/.exec(readFileSync(join(PACKAGE, "README.md"), "utf8"))!;
    assert.equal(Number(said), Math.round(Number(sizes.get("index")) / 1000));
  });
});
