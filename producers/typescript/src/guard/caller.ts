/** For whom a call is made. */
export interface CallerIds {
  /** User on whose behalf the call is made. */
  readonly userId?: string | undefined;
  readonly sessionId?: string | undefined;
  readonly requestId?: string | undefined;
  /** What the call signs in with, such as its token. Only a salted hash is kept, and never sent. */
  readonly credential?: string | undefined;
}

/** The same, ready for look-ups and events. */
export interface Caller {
  readonly userId: string;
  readonly sessionId: string;
  readonly credential: string;
  /** What events and requests say about the caller. */
  readonly fields: { readonly user_id?: string; readonly session_id?: string; readonly request_id?: string };
}

const NO_CALLER: Caller = { userId: "", sessionId: "", credential: "", fields: {} };

/** Return the caller that `ids` name. What they leave out, `around` names. */
export function callerOf(ids: CallerIds, around: CallerIds = {}): Caller {
  const userId = ids.userId ?? around.userId;
  const sessionId = ids.sessionId ?? around.sessionId;
  const requestId = ids.requestId ?? around.requestId;
  const credential = ids.credential ?? around.credential ?? "";
  if (userId === undefined && sessionId === undefined && requestId === undefined && credential === "") {
    return NO_CALLER;
  }
  return {
    userId: userId ?? "",
    sessionId: sessionId ?? "",
    credential: String(credential),
    fields: {
      ...(userId === undefined ? {} : { user_id: String(userId) }),
      ...(sessionId === undefined ? {} : { session_id: String(sessionId) }),
      ...(requestId === undefined ? {} : { request_id: String(requestId) }),
    },
  };
}
