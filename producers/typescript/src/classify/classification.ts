import { ERROR_CLASSES, type ErrorClass } from "../breaker/policy.js";
import { SwitchgearError } from "../errors.js";

/** The class of a failure. */
export interface Classification {
  readonly errorClass: ErrorClass;
  /** The seconds that a rate-limited or overloaded tool asks to wait. */
  readonly retryAfterS?: number | null;
}

/** Return it from a rule for a call that counts neither as a success nor as a failure. */
export const IGNORE: Classification = { errorClass: "policy" };

/** A user's rule for errors. It returns null or undefined to leave the error to `classify`. */
export type Classifier = (error: unknown) => Classification | ErrorClass | null | undefined;
/** A user's rule for results. It returns null or undefined for a success. */
export type ResultClassifier = (result: unknown) => Classification | ErrorClass | null | undefined;

/**
 * Return what a user's rule returned as a classification, or null.
 *
 * @throws SwitchgearError It is no classification, or its class or wait is impossible.
 */
export function checkedClass(given: Classification | ErrorClass | null | undefined): Classification | null {
  if (given === null || given === undefined) {
    return null;
  }
  const found = typeof given === "string" ? { errorClass: given } : given;
  if (!ERROR_CLASSES.includes(found.errorClass)) {
    throw new SwitchgearError(
      `The error class ${String(found.errorClass)} is unknown.`,
      `Use one of ${ERROR_CLASSES.join(", ")}.`,
    );
  }
  const wait = found.retryAfterS;
  if (wait !== null && wait !== undefined && !(wait >= 0 && Number.isFinite(wait))) {
    throw new SwitchgearError(`retryAfterS is ${String(wait)}.`, "Use a number of seconds of at least 0.");
  }
  return found;
}
