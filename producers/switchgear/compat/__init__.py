"""Classes with the names and behaviour of other libraries, on this one."""
