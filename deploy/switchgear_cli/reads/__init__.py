"""Read a running Switchgear from the command line: the HTTP API's answers as tables."""
