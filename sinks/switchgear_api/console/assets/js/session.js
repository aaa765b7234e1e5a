/** Who is logged in, and what they may do. */
import { get, send, setCsrf } from "./api.js";

/** @import { SessionAnswer } from "../../types.js" */

/** @type {SessionAnswer | null} */
let session = null;

export const currentSession = () => session;
export const mayOperate = () =>
  session !== null && session.roles.some((role) => role === "operate" || role === "admin");

/** @returns {Promise<SessionAnswer>} */
export async function loadSession() {
  return take(await get("/v1/session"));
}

/** @param {string} token @returns {Promise<SessionAnswer>} */
export async function logIn(token) {
  const answer = await send("POST", "/v1/session", { token });
  return take(answer && /** @type {any} */ (answer).roles ? /** @type {any} */ (answer) : await get("/v1/session"));
}

export async function logOut() {
  await send("DELETE", "/v1/session");
  session = null;
  setCsrf("");
}

/** @param {SessionAnswer} answer */
function take(answer) {
  session = answer;
  setCsrf(answer.csrf);
  return answer;
}
