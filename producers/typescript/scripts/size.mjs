// Print what each entry point adds to a program: bundled, minified and compressed, without its peer dependencies.
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { buildSync } from "esbuild";

const dist = join(dirname(fileURLToPath(import.meta.url)), "..", "dist");

for (const entry of ["index", "ai", "langchain", "mcp"]) {
  const built = buildSync({
    entryPoints: [join(dist, `${entry}.js`)],
    bundle: true,
    minify: true,
    format: "esm",
    platform: "node",
    packages: "external",
    write: false,
  });
  console.log(`${entry} ${gzipSync(built.outputFiles[0].contents).length}`);
}
