// A column of the matrix in a process of Node, Deno or Bun: program.mjs COLUMN URL
import { calls } from "./scenario.mjs";

const [column, url] = process.argv.slice(2);
const { gear } = await calls(column, url);
if (column === "exit") process.exit(0);
if (column === "crash") {
  setTimeout(() => {
    throw new Error("nobody catches this");
  }, 0);
} else if (column === "SIGTERM") {
  setTimeout(() => {}, 60_000);
  console.log("ready");
} else {
  await gear.close();
}
