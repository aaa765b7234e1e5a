"""The steps of a guarded call, one module each."""
