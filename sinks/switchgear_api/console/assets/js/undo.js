/** Take back an audited action. */
import { send } from "./api.js";
import { toast } from "./parts/toasts.js";

/** @param {string} auditId @param {string} what @param {string} reason */
export async function undo(auditId, what, reason) {
  try {
    await send("POST", `/v1/audit/${encodeURIComponent(auditId)}/undo`, { reason });
    toast({ title: "Undone", text: what });
    return true;
  } catch (error) {
    const { message, hint } = /** @type {import("./api.js").ApiError} */ (error);
    toast({ title: "It could not be undone", text: `${message} ${hint ?? ""}` });
    return false;
  }
}
