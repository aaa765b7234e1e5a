import { plain, targetOfCall } from "./targets.js";

/** For whom a call is made, and on what. */
export interface CallerIds {
  /** User on whose behalf the call is made. */
  readonly userId?: string | undefined;
  readonly sessionId?: string | undefined;
  readonly requestId?: string | undefined;
  /** What the call signs in with, such as its token. Only a salted hash is kept, and never sent. */
  readonly credential?: string | undefined;
  /** What the call is about, such as a host. It counts if the tool's policy has a `target`. Without it, the arguments say. */
  readonly target?: string | undefined;
}

/** The same, ready for look-ups and events. */
export interface Caller {
  readonly userId: string;
  readonly sessionId: string;
  readonly credential: string;
  /** What the call is about, if the tool's policy keeps targets apart. */
  readonly target: string;
  /** What events and requests say about the caller. */
  readonly fields: {
    readonly user_id?: string;
    readonly session_id?: string;
    readonly request_id?: string;
    readonly target?: string;
  };
}

const NO_CALLER: Caller = { userId: "", sessionId: "", credential: "", target: "", fields: {} };

/** Return the caller that `ids` name. What they leave out, `around` names. */
export function callerOf(ids: CallerIds, around: CallerIds = {}): Caller {
  const userId = ids.userId ?? around.userId;
  const sessionId = ids.sessionId ?? around.sessionId;
  const requestId = ids.requestId ?? around.requestId;
  const credential = ids.credential ?? around.credential ?? "";
  const target = ids.target === undefined ? "" : plain(ids.target);
  const named = [userId, sessionId, requestId].some((id) => id !== undefined);
  if (!named && credential === "" && target === "") {
    return NO_CALLER;
  }
  return {
    userId: userId ?? "",
    sessionId: sessionId ?? "",
    credential: String(credential),
    target,
    fields: {
      ...(userId === undefined ? {} : { user_id: String(userId) }),
      ...(sessionId === undefined ? {} : { session_id: String(sessionId) }),
      ...(requestId === undefined ? {} : { request_id: String(requestId) }),
    },
  };
}

/** Return the caller with what the call is about: as it says itself, else by `rule` from the arguments. Without a rule, about nothing. */
export function aimed(caller: Caller, rule: string | null, args: readonly unknown[]): Caller {
  const target = rule === null ? "" : caller.target || targetOfCall(rule, args);
  return target === caller.target && target === "" ? caller : withTarget(caller, target);
}

function withTarget(caller: Caller, target: string): Caller {
  return { ...caller, target, fields: { ...caller.fields, ...(target === "" ? {} : { target }) } };
}
