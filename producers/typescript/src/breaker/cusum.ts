/**
 * CUSUM, the classical detector of a change (Page 1954), for calls that succeed or fail.
 *
 * A failure adds `ln(p1/p0)` to a sum, and a success adds `ln((1-p1)/(1-p0))`, which is negative. The sum never falls below zero, and
 * the circuit opens when it reaches `h`. Both weights are whole multiples of one unit, so no rounding adds up.
 */
import type { Cusum } from "./policy.js";

/** Largest relative error of the rounded weights, if that is affordable. */
const TOLERANCE = 0.002;
/** Multiplications that one solution may take. A finer unit would take more, so a coarser one is used. */
const MOST_WORK = 600_000;
const MOST_STEPS = 400;

/** A CUSUM in whole units. */
export interface Detector {
  /** Units that a failure adds. */
  readonly up: number;
  /** Units that a success subtracts. */
  readonly down: number;
  /** Units at which the circuit opens. */
  readonly height: number;
  /** One unit in nats. */
  readonly unit: number;
}

/** The detector of a policy without the rule: its sum stays zero. */
export const OFF: Detector = { up: 0, down: 0, height: 1, unit: 1 };

/** The solution for the default rule of a fleet. */
const FLEET: Detector = { up: 41, down: 15, height: 306, unit: Math.log((1 - 0.1) / (1 - 0.5)) / 15 };
/** The solution for the default rule of a process, which each one needs. */
const LOCAL: Detector = { up: 18, down: 23, height: 228, unit: Math.log(0.8 / 0.3) / 18 };
const solved = new Map<string, Detector>([
  ["0.1 0.5 1000000", FLEET],
  ["0.3 0.8 1000000", LOCAL],
]);

/** Return the `solution` of a rule, from memory if it was solved before. */
export function solve(rule: Readonly<Cusum>): Detector {
  const key = `${rule.tolerable_failure_rate} ${rule.broken_failure_rate} ${rule.calls_between_false_opens}`;
  const known = solved.get(key);
  if (known !== undefined) {
    return known;
  }
  const found = solution(rule);
  if (solved.size < 256) {
    solved.set(key, found);
  }
  return found;
}

/** Return the detector with the lowest height whose run length at the tolerable rate is at least the wanted one. */
export function solution(rule: Readonly<Cusum>): Detector {
  const { up, down, unit } = weights(rule);
  let height = 0;
  for (const length of runLengths(up, down, rule.tolerable_failure_rate)) {
    if (length >= rule.calls_between_false_opens) {
      break;
    }
    height += 1;
  }
  return { up, down, height, unit };
}

/** Return whole numbers in the ratio of the two log-likelihood steps, and their unit in nats. */
function weights(rule: Readonly<Cusum>): { up: number; down: number; unit: number } {
  const failure = Math.log(rule.broken_failure_rate / rule.tolerable_failure_rate);
  const success = Math.log((1 - rule.tolerable_failure_rate) / (1 - rule.broken_failure_rate));
  const small = Math.min(failure, success);
  const large = Math.max(failure, success);
  let best: { error: number; steps: number; other: number } | null = null;
  for (let steps = 1; steps < MOST_STEPS; steps += 1) {
    const unit = small / steps;
    const other = Math.max(1, Math.round(large / unit));
    const states = Math.log(rule.calls_between_false_opens) / unit + other; // h <= ln(run length), Lorden 1971
    if (best !== null && states * steps * other > MOST_WORK) {
      break;
    }
    const error = Math.abs((other * unit) / large - 1);
    if (best === null || error < best.error) {
      best = { error, steps, other };
    }
    if (error <= TOLERANCE && steps >= 4) {
      break; // fewer steps make few heights to choose from
    }
  }
  const { steps, other } = best!;
  const unit = small / steps;
  return failure <= success ? { up: steps, down: other, unit } : { up: other, down: steps, unit };
}

/**
 * Yield the mean run length of the walk 0..height-1 for the heights 0, 1, 2 …, by one elimination without pivoting.
 *
 * The equations `L(i) = 1 + p L(i+up) + (1-p) L(max(0, i-down))` of these heights are the leading minors of one band matrix, so each
 * further state takes one row.
 */
function* runLengths(up: number, down: number, rate: number): Generator<number> {
  const upper = new Map<number, Map<number, number>>();
  const y = new Map<number, number>();
  const above = new Map<number, number>();
  let length = 0;
  for (let i = 0; ; i += 1) {
    yield length;
    const back = Math.max(0, i - down);
    const row = new Map<number, number>([[i, 1]]);
    row.set(back, (row.get(back) ?? 0) - (1 - rate));
    row.set(i + up, (row.get(i + up) ?? 0) - rate);
    let right = 1;
    for (let k = back; k < i; k += 1) {
      const entry = row.get(k) ?? 0;
      row.delete(k);
      if (entry === 0) {
        continue;
      }
      const pivots = upper.get(k)!;
      const factor = entry / pivots.get(k)!;
      for (const [j, value] of pivots) {
        if (j > k) {
          row.set(j, (row.get(j) ?? 0) - factor * value);
        }
      }
      right -= factor * y.get(k)!;
    }
    y.set(i, right);
    const z = ((i === 0 ? 1 : 0) - (above.get(i) ?? 0)) / row.get(i)!;
    above.delete(i);
    for (const [j, entry] of row) {
      if (j > i) {
        above.set(j, (above.get(j) ?? 0) + z * entry);
      }
    }
    upper.set(i, row);
    upper.delete(i - down - 1);
    y.delete(i - down - 1);
    length += z * right;
  }
}
