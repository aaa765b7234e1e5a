/** What is wrong with the system, in words. No browser is needed here. */
import { clock } from "./format.js";

/** @import { Freshness, Problem } from "../../types.js" */

/** The circuits on the screen are those of before, if one of these does not work. */
const DECIDES = new Set(["kafka", "worker"]);

/** @param {Freshness} data @returns {Problem[]} */
export const problemsOf = (data) => data.problems ?? [];

/** Return the problem for which the page must not look as if all were well, or undefined. @param {Freshness} data */
export const badProblem = (data) => problemsOf(data).find((problem) => problem.level === "bad");

/** Return since when the circuits on the screen may be old, as text; null if they are not. @param {Freshness} data @param {number} now */
export function circuitsOldSince(data, now) {
  const problem = problemsOf(data).find((each) => each.level === "bad" && DECIDES.has(each.component));
  return problem ? clock(problem.since, now) : null;
}

/**
 * Return what is wrong and since when.
 * @param {Problem} problem @param {number} now milliseconds
 */
export const headOf = (problem, now) =>
  problem.since ? `${problem.what.replace(/\.$/, "")}, since ${clock(problem.since, now)}.` : problem.what;
