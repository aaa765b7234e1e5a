// The columns of the matrix in a Worker. Its client is made with the module, outside of any request: GET /COLUMN
import { env, waitUntil } from "cloudflare:workers";
import { Switchgear } from "@switchgear/client";
import { makeCalls } from "./scenario.mjs";

let asked = 0;
const gears = {};
for (const column of ["guard", "refusal", "exit", "crash", "token"]) {
  const token = column === "token" ? async () => `token-${(asked += 1)}` : "token-1";
  gears[column] = new Switchgear({ url: env.GATEWAY, token, service: column, startWaitS: 20, waitUntil });
}
// A client without waitUntil: its request sends at its end.
gears.flush = new Switchgear({ url: env.GATEWAY, token: "token-1", service: "flush", startWaitS: 20 });

export default {
  async fetch(request, _env, context) {
    const column = new URL(request.url).pathname.slice(1);
    let answer;
    try {
      answer = await makeCalls(column, gears[column]);
    } catch (error) {
      return new Response(String(error), { status: 500 });
    }
    if (column === "flush") context.waitUntil(gears.flush.flush());
    if (column === "crash") throw new Error("nobody catches this");
    return new Response(answer);
  },
};
