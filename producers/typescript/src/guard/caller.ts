/** User, session and request of a call. */
export interface CallerIds {
  /** User on whose behalf the call is made. */
  readonly userId?: string;
  readonly sessionId?: string;
  readonly requestId?: string;
}

/** The same, ready for look-ups and events. */
export interface Caller {
  readonly userId: string;
  readonly sessionId: string;
  /** What events and requests say about the caller. */
  readonly fields: { readonly user_id?: string; readonly session_id?: string; readonly request_id?: string };
}

const NO_CALLER: Caller = { userId: "", sessionId: "", fields: {} };

export function callerOf(ids: CallerIds): Caller {
  const { userId, sessionId, requestId } = ids;
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
