// Run the client, as it is packed, in each run-time, and print what each of them does: npm run matrix [-- --write] [-- Deno Bun …]
//
// Exit code 1: a cell is not as expected. With --write, the table of docs/reference/typescript.md becomes the result.
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { inSeconds, record, TestGateway } from "../build/test/support/gateway.js";

const HERE = dirname(fileURLToPath(import.meta.url));
const PACKAGE = join(HERE, "..");
const PAGE = join(PACKAGE, "..", "..", "docs", "reference", "typescript.md");
const BEGIN = "<!-- table: made by `npm run matrix -- --write` -->";
const END = "<!-- end of the table -->";
const PROGRAMS = ["scenario.mjs", "program.mjs", "worker.mjs"];
const COLUMNS = ["guard", "refusal", "exit", "crash", "SIGTERM", "token"];
const LIMIT_MS = 60_000;
const CHROMIUM = "/usr/bin/chromium";
const NODE_FOR_WORKERD = 22;

/** Install the packed client in a folder of its own. */
function cleanFolder() {
  const folder = mkdtempSync(join(tmpdir(), "switchgear-matrix-"));
  writeFileSync(join(folder, "package.json"), '{ "type": "module", "private": true }');
  const npm = (...args) =>
    execFileSync("npm", args, { cwd: folder, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
  const packed = JSON.parse(npm("pack", "--json", "--ignore-scripts", "--pack-destination", folder, PACKAGE));
  npm("install", "--no-audit", "--no-fund", "--no-save", join(folder, packed[0].filename));
  for (const name of PROGRAMS) cpSync(join(HERE, name), join(folder, name));
  return folder;
}

async function withGateway(act) {
  const gateway = new TestGateway();
  gateway.allowsPages = true;
  gateway.circuits.open_tool = record("open_tool", "open", 1, { open_until: inSeconds(3600) });
  await gateway.start();
  try {
    return await act(gateway);
  } finally {
    await gateway.stop();
  }
}

/** Let the gateway refuse the first token. */
function prepare(column, gateway) {
  if (column === "token") gateway.nextExecutions.push({ status: 401 });
}

const EVENTS = {
  refusal: ["open_tool rejected"],
};

/** Wait for the events of a column's calls, made `times`. Return what the cell says. */
async function arrived(column, gateway, times = 1, limitMs = 20_000) {
  const expected = EVENTS[column] ?? [`${column} success`, `${column}_fails error`];
  const end = Date.now() + limitMs;
  for (;;) {
    const found = gateway.executions
      .filter((each) => each.service === column || each.service === "flush")
      .map((each) => `${each.tool_name} ${each.status}`);
    const missing = expected.filter((each) => found.filter((one) => one === each).length < times);
    if (missing.length === 0) {
      return "yes";
    }
    if (Date.now() > end) {
      return `no: ${missing.join(", ")} did not arrive`;
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Run a column in a process of its own. */
async function inProcess(column, folder, [command, ...args]) {
  return withGateway(async (gateway) => {
    prepare(column, gateway);
    const child = spawn(command, [...args, "program.mjs", column, gateway.url], { cwd: folder, timeout: LIMIT_MS });
    let output = "";
    child.stderr.on("data", (part) => (output += part));
    child.stdout.on("data", (part) => {
      output += part;
      if (column === "SIGTERM" && String(part).includes("ready")) child.kill("SIGTERM");
    });
    const [code, signal] = await new Promise((resolve) => child.on("close", (...ended) => resolve(ended)));
    const asExpected = {
      crash: code !== 0 && output.includes("nobody catches this"),
      SIGTERM: signal === "SIGTERM" || code === 143,
    };
    if (!(asExpected[column] ?? code === 0)) {
      return `no: it ended with ${signal ?? code}. ${output.slice(-500)}`;
    }
    return arrived(column, gateway);
  });
}

function processes(title, command, versionOf) {
  return {
    title,
    async cells(folder) {
      if (!existsSync(command[0])) {
        return `not run: the registry has no binary of it for ${process.platform} ${process.arch}`;
      }
      this.title = `${title} ${versionOf(command[0])}`;
      const cells = {};
      for (const column of COLUMNS) cells[column] = await inProcess(column, folder, command);
      return cells;
    },
  };
}

const firstVersion = (command) => /\d+(\.\d+)+/.exec(spawnSync(command, ["--version"], { encoding: "utf8" }).stdout)[0];

const workerd = {
  title: "Cloudflare Workers (workerd)",
  async cells(folder) {
    if (Number(process.versions.node.split(".")[0]) < NODE_FOR_WORKERD) {
      return `not run: Miniflare needs Node ${NODE_FOR_WORKERD} or newer`;
    }
    const { Miniflare } = await import("miniflare");
    this.title = `Cloudflare Workers (workerd ${versionIn("workerd")})`;
    return withGateway(async (gateway) => {
      const dist = join(folder, "node_modules", "@switchgear", "client", "dist");
      const files = readdirSync(dist, { recursive: true }).filter((file) => file.endsWith(".js"));
      const module = (path, contents) => ({ type: "ESModule", path, contents });
      const program = (name) =>
        readFileSync(join(folder, name), "utf8").replaceAll('"@switchgear/client"', '"./client/index.js"');
      const worker = new Miniflare({
        compatibilityDate: "2026-01-01",
        bindings: { GATEWAY: gateway.url },
        modulesRoot: "/",
        modules: [
          module("worker.mjs", program("worker.mjs")),
          module("scenario.mjs", program("scenario.mjs")),
          ...files.map((file) => module(`client/${file}`, readFileSync(join(dist, file), "utf8"))),
        ],
        handleRuntimeStdio() {},
      });
      const cells = {};
      try {
        for (const column of [...COLUMNS, "flush"]) {
          if (column !== "SIGTERM") cells[column] = await this.requests(worker, column, gateway);
        }
      } finally {
        await worker.dispose();
      }
      const { flush, ...rest } = cells;
      const guard = flush === "yes" ? cells.guard : flush;
      return { ...rest, guard, SIGTERM: "none: a Worker gets no signal, and each request sends its own events" };
    });
  },
  /** Two requests one after the other: the second one finds what the first has left. */
  async requests(worker, column, gateway) {
    prepare(column, gateway);
    for (const time of [1, 2]) {
      const path = `http://worker/${column}`;
      const said = await worker.dispatchFetch(path).then(
        async (response) => `${response.status} ${await response.text()}`,
        (error) => `thrown ${error}`,
      );
      const fine = column === "crash" ? said.includes("nobody catches this") : said.startsWith("200");
      if (!fine) {
        return `no: request ${time} said ${said.slice(0, 500)}`;
      }
    }
    return arrived(column, gateway, 2);
  },
};

const chromium = {
  title: "Chromium",
  async cells(folder) {
    if (!existsSync(CHROMIUM)) {
      return "not run: it is not installed (apt-get install chromium)";
    }
    const site = await serve(folder);
    const cells = {};
    try {
      for (const column of COLUMNS) cells[column] = await withGateway((gateway) => this.cell(column, site, gateway));
    } finally {
      site.close();
    }
    return cells;
  },
  async cell(column, site, gateway) {
    const playwright = await import("playwright-core");
    const server = await playwright.chromium.launchServer({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
    try {
      const browser = await playwright.chromium.connect(server.wsEndpoint());
      prepare(column, gateway);
      const page = await browser.newPage();
      await page.goto(`http://127.0.0.1:${site.address().port}/`);
      await page.waitForFunction(() => "calls" in globalThis);
      await page.evaluate(
        ([name, url]) => globalThis.calls(name, url).then(({ gear }) => void (globalThis.gear = gear)),
        [column, gateway.url],
      );
      if (column === "exit") {
        await page.goto("about:blank");
      } else if (column === "crash") {
        await page.evaluate(
          () =>
            void setTimeout(() => {
              throw new Error("nobody catches this");
            }),
        );
      } else if (column === "SIGTERM") {
        server.process().kill("SIGTERM");
      } else {
        await page.evaluate(() => globalThis.gear.close());
      }
      return await arrived(column, gateway, 1, column === "SIGTERM" ? 5_000 : undefined);
    } catch (error) {
      return `no: ${String(error).slice(0, 500)}`;
    } finally {
      await server.kill();
    }
  },
};

/** Serve a page that has the scenario, and its modules. */
async function serve(folder) {
  const dist = join(folder, "node_modules", "@switchgear", "client", "dist");
  const page = `<!doctype html><script type="importmap">{"imports":{"@switchgear/client":"/client/index.js"}}</script>
    <script type="module">import { calls } from "/scenario.mjs"; globalThis.calls = calls;</script>`;
  const server = createServer(({ url }, response) => {
    const file = url.startsWith("/client/") ? join(dist, url.slice("/client/".length)) : join(folder, url.slice(1));
    const found = url !== "/" && existsSync(file);
    response.writeHead(url === "/" || found ? 200 : 404, {
      "content-type": url === "/" ? "text/html" : "text/javascript",
    });
    response.end(url === "/" ? page : found ? readFileSync(file) : "");
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}

function versionIn(name) {
  return JSON.parse(readFileSync(join(HERE, "node_modules", name, "package.json"), "utf8")).version;
}

const bin = (...parts) => join(HERE, "node_modules", ...parts);
const ROWS = [
  ...["20", "22", "24"].map((major) => processes("Node.js", [bin(`node${major}`, "bin", "node")], firstVersion)),
  processes("Deno", [bin(".bin", "deno"), "run", "--allow-all"], firstVersion),
  processes("Bun", [bin(".bin", "bun"), "run"], firstVersion),
  workerd,
  chromium,
];

const NOTES = {
  "Chromium SIGTERM": "no: a browser that is killed gives a page no time",
};

async function main() {
  const chosen = process.argv.slice(2).filter((each) => !each.startsWith("--"));
  const folder = cleanFolder();
  const lines = [`| run-time | ${COLUMNS.join(" | ")} |`, `|---|${"---|".repeat(COLUMNS.length)}`];
  let failed = 0;
  try {
    for (const row of ROWS.filter(({ title }) => chosen.length === 0 || chosen.some((name) => title.includes(name)))) {
      const cells = await row.cells(folder);
      const shown = COLUMNS.map((column) => {
        if (typeof cells === "string") return cells;
        const cell = cells[column];
        const note = NOTES[`${row.title.split(" ")[0]} ${column}`];
        if (note !== undefined && cell.startsWith("no:")) return note;
        failed += cell.startsWith("no:") ? 1 : 0;
        return cell.replaceAll("|", "/").replaceAll("\n", " ");
      });
      lines.push(`| ${row.title} | ${shown.join(" | ")} |`);
      console.log(lines.at(-1));
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
  if (process.argv.includes("--write") && failed === 0 && chosen.length === 0) {
    const text = readFileSync(PAGE, "utf8");
    const [before, after] = [text.slice(0, text.indexOf(BEGIN)), text.slice(text.indexOf(END))];
    writeFileSync(PAGE, `${before}${BEGIN}\n\n${lines.join("\n")}\n\n${after}`);
  }
  process.exitCode = failed === 0 ? 0 : 1;
}

const newer = bin("node24", "bin", "node");
if (Number(process.versions.node.split(".")[0]) < NODE_FOR_WORKERD && existsSync(newer)) {
  const { status } = spawnSync(newer, [fileURLToPath(import.meta.url), ...process.argv.slice(2)], { stdio: "inherit" });
  process.exitCode = status ?? 1;
} else {
  await main();
}
