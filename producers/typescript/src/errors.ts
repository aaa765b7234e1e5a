/** The base of this package's errors. */
export class SwitchgearError extends Error {
  override name = "SwitchgearError";
  /** What to do about it. Empty if there is nothing to say. */
  readonly hint: string;

  /**
   * @param message What is wrong.
   * @param hint What to do about it.
   */
  constructor(message: string, hint = "", options?: ErrorOptions) {
    super(hint === "" ? message : `${message} ${hint}`, options);
    this.hint = hint;
  }
}

/** The call took longer than the guard's `timeoutS`. */
export class CallTimeoutError extends SwitchgearError {
  override name = "CallTimeoutError";

  constructor(tool: string, seconds: number) {
    super(`The call of ${tool} took longer than ${seconds} s.`);
  }
}
