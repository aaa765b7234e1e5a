// One column of the matrix, as a program in any run-time does it. It returns after its calls; how it ends is the run-time's matter.
import { CircuitOpenError, Switchgear } from "@switchgear/client";

function check(holds, what) {
  if (!holds) throw new Error(`it does not hold: ${what}`);
}

/** Make the calls of a column. `more` are options of the client. */
export async function calls(column, url, more = {}) {
  let asked = 0;
  const token = column === "token" ? async () => `token-${(asked += 1)}` : "token-1";
  const gear = new Switchgear({ url, token, service: column, startWaitS: 20, exitWaitS: 10, ...more });
  const answer = await makeCalls(column, gear);
  check(column !== "token" || (await gear.flush(20)), "the gateway has the event");
  check(column !== "token" || asked === 2, `the function was asked twice, not ${asked} times`);
  return { gear, answer };
}

/** Make the calls of a column with a client that exists. */
export async function makeCalls(column, gear) {
  if (column === "refusal") {
    let refused;
    await gear.call("open_tool", () => "called").catch((error) => (refused = error));
    check(refused instanceof CircuitOpenError, `the open tool is refused: ${refused}`);
    check(refused.text.startsWith("The tool open_tool is unavailable"), refused.text);
    return refused.text;
  }
  const add = gear.guard(column, async (one, other) => one + other);
  check((await add(1, 2)) === 3, "a guarded function returns its result");
  let thrown;
  const broken = gear.guard(`${column}_fails`, () => Promise.reject(new RangeError("as it is")));
  await broken().catch((error) => (thrown = error));
  check(thrown instanceof RangeError, `a guarded function throws its own error, not ${thrown}`);
  return "3";
}
