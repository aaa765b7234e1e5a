/** Classify results: a tool of MCP or of an agent framework that fails may return an error instead of throwing one. */
import type { ErrorClass } from "../breaker/policy.js";
import { byData } from "./by-code.js";
import { MAX_TEXT, refusalInText } from "./by-text.js";
import { IGNORE, type Classification } from "./classification.js";
import { isRecord, readToolFailure } from "./tool-failure.js";
import { waitInData } from "./waits.js";

/** A rule of yours for the text of a failed result. */
export type TextRule = (text: string) => Classification | ErrorClass | null;

/**
 * Return the class of a result that is a failure, null for every other result.
 *
 * A failure is an object with `content` whose `isError` or `is_error` is true (MCP's `CallToolResult`), or a `ToolMessage` of LangChain
 * whose `status` is `error`. Its class is `tool`, because the server answered: "no such city" three times must not open the circuit, nor a dead link that a tool was asked to fetch. A refusal of
 * another guard, which its words show, is `policy`. If the texts of a server tell its own outages, give `byText`. If the result says in
 * its `_meta` what failed, that decides; so does a status of 429, 503 or 529 there, or how long to wait. A request for input (MCP's `InputRequiredResult`) is neither a success nor a failure.
 *
 * @param result What the tool returned.
 * @param byText Returns the class of a text, or null for `tool`. `outageInText` is such a function. The default knows refusals only.
 */
export function classifyResult(result: unknown, byText: TextRule = refusalInText): Classification | null {
  if (!isRecord(result)) {
    return null;
  }
  if (!("content" in result)) {
    return result["resultType"] === "input_required" || result["result_type"] === "input_required" ? IGNORE : null;
  }
  const failedMessage = result["status"] === "error" && "tool_call_id" in result;
  if (result["isError"] !== true && result["is_error"] !== true && !failedMessage) {
    return null;
  }
  const meta = result["_meta"] ?? result["meta"];
  const said = readToolFailure(meta) ?? byData(meta);
  if (said !== null) {
    return said;
  }
  const found = byText(resultText(result)) ?? "tool";
  if (typeof found !== "string") {
    return found;
  }
  // Structured content says how long, and never the class: it may be about a target.
  const limited = found === "rate_limited" || found === "server";
  const wait = limited ? waitInData(result["structuredContent"] ?? result["structured_content"]) : null;
  return wait === null ? { errorClass: found } : { errorClass: found, retryAfterS: wait };
}

/** Return the text of a failed result, at most 2,000 characters. */
export function resultText(result: Record<string, unknown>): string {
  const content = result["content"];
  if (typeof content === "string") {
    return content.slice(0, MAX_TEXT);
  }
  const blocks: unknown[] = Array.isArray(content) ? content.slice(0, 20) : [];
  const texts = blocks.map((block) => (isRecord(block) ? block["text"] : null));
  return texts
    .filter((text) => typeof text === "string")
    .map((text) => text.slice(0, MAX_TEXT))
    .join("\n")
    .slice(0, MAX_TEXT);
}
