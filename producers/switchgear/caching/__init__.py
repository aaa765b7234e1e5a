"""Keep results, share calls in flight, and count repeated calls, by the identity of a call."""
