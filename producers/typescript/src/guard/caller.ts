/** User, session and request of a call. */
export interface CallerIds {
  /** User on whose behalf the call is made. */
  readonly userId?: string | undefined;
  readonly sessionId?: string | undefined;
  readonly requestId?: string | undefined;
}

/** The same, ready for look-ups and events. */
export interface Caller {
  readonly userId: string;
  readonly sessionId: string;
  /** What events and requests say about the caller. */
  readonly fields: { readonly user_id?: string; readonly session_id?: string; readonly request_id?: string };
}

const NO_CALLER: Caller = { userId: "", sessionId: "", fields: {} };

/** Return the caller that `ids` name. What they leave out, `around` names. */
export function callerOf(ids: CallerIds, around: CallerIds = {}): Caller {
  const userId = ids.userId ?? around.userId;
  const sessionId = ids.sessionId ?? around.sessionId;
  const requestId = ids.requestId ?? around.requestId;
  if (userId === undefined && sessionId === undefined && requestId === undefined) {
    return NO_CALLER;
  }
  return {
    userId: userId ?? "",
    sessionId: sessionId ?? "",
    fields: {
      ...(userId === undefined ? {} : { user_id: String(userId) }),
      ...(sessionId === undefined ? {} : { session_id: String(sessionId) }),
      ...(requestId === undefined ? {} : { request_id: String(requestId) }),
    },
  };
}
