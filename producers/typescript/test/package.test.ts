import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { describe, it } from "node:test";
import { gzipSync } from "node:zlib";
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

/** Return a built file and all that it imports of this package. */
function reachable(file: string, found = new Set<string>()): Set<string> {
  if (!found.has(file)) {
    found.add(file);
    for (const [, from] of readFileSync(file, "utf8").matchAll(/from "(\.[^"]+)"/g)) {
      reachable(join(dirname(file), from!), found);
    }
  }
  return found;
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

  it("what a program loads through an entry point has less than 60 kB compressed", () => {
    for (const entry of ["index", "ai", "langchain", "mcp"]) {
      const loaded = [...reachable(join(PACKAGE, "dist", `${entry}.js`))];
      const size = gzipSync(loaded.map((file) => readFileSync(file, "utf8")).join("\n")).length;
      assert.ok(size < 60_000, `${entry}: ${size} bytes`);
    }
  });
});
