"""One module a command: parse, load the settings, call the package, print."""
