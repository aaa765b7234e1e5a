// What opossum adds to an awaited call, in nanoseconds of processor time. Argument: the folder with node_modules.
import { createRequire } from "node:module";

const require = createRequire(`${process.argv[2]}/`);
const CircuitBreaker = require("opossum");
const { version } = require("opossum/package.json");
const ROUNDS = 20;
const CALLS = 20_000;

const nothing = async () => {};
const fail = async () => {
  throw new Error("down");
};

async function cost(call) {
  const before = process.cpuUsage();
  for (let number = 0; number < CALLS; number++) await call();
  const { user, system } = process.cpuUsage(before);
  return ((user + system) * 1000) / CALLS;
}

const refused = (breaker) => async () => {
  try {
    await breaker.fire();
  } catch {
    // the refusal
  }
};

const options = { timeout: false, errorThresholdPercentage: 50, volumeThreshold: 5, resetTimeout: 3_600_000 };
const closed = new CircuitBreaker(nothing, options);
const open = new CircuitBreaker(fail, options);
for (let number = 0; number < 5; number++) await refused(open)();
if (!open.opened) throw new Error("it is not open");

const rounds = [];
for (let round = 0; round < ROUNDS; round++) {
  const bare = await cost(nothing);
  rounds.push({ closed: (await cost(() => closed.fire())) - bare, open: (await cost(refused(open))) - bare });
}
console.log(JSON.stringify({ name: "opossum", version, runtime: `Node ${process.versions.node}, async`, rounds }));
process.exit(0);
