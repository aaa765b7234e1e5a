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
  "gear",
  "switchgear",
  "ai",
  "mcp",
  "index",
];

function files(): string[] {
  return readdirSync(SRC, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".ts"));
}

function imports(file: string): string[] {
  const text = readFileSync(join(SRC, file), "utf8");
  return [...text.matchAll(/from "([^"]+)"/g)].map((found) => found[1]!);
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
    assert.deepEqual(names["./ai"], ["wrapTools"]);
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
        [],
        file,
      );
    }
  });

  it("the lock file names no registry", () => {
    assert.doesNotMatch(
      readFileSync(join(PACKAGE, "package-lock.json"), "utf8"),
      /"resolved"|https?:\/\/[^"]*registry/,
    );
  });

  it("imports go one way through the layers, without cycles", () => {
    const graph = new Map(
      files().map((file) => [
        file,
        imports(file).map((from) => relative(SRC, join(SRC, dirname(file), from)).replace(/\.js$/, ".ts")),
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

  it("all that is built has less than 60 kB compressed", () => {
    const built = readdirSync(join(PACKAGE, "dist"), { recursive: true, encoding: "utf8" }).filter((file) =>
      file.endsWith(".js"),
    );
    const size = gzipSync(built.map((file) => readFileSync(join(PACKAGE, "dist", file), "utf8")).join("\n")).length;
    assert.ok(size < 60_000, `${size} bytes`);
  });
});
