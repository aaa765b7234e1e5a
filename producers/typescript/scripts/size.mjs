// Print the size of each entry point with all that it imports: as built, and compressed.
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const dist = join(dirname(fileURLToPath(import.meta.url)), "..", "dist");

function reachable(file, found = new Set()) {
  if (!found.has(file)) {
    found.add(file);
    for (const [, from] of readFileSync(file, "utf8").matchAll(/from "(\.[^"]+)"/g)) {
      reachable(join(dirname(file), from), found);
    }
  }
  return found;
}

for (const entry of ["index.js", "ai.js", "langchain.js", "mcp.js"]) {
  const files = [...reachable(join(dist, entry))];
  const text = files.map((file) => readFileSync(file, "utf8")).join("\n");
  console.log(
    `${entry}: ${files.length} files, ${(text.length / 1000).toFixed(0)} kB, ${(gzipSync(text).length / 1000).toFixed(0)} kB compressed`,
  );
}
