"""One module per command: parse the options, load the settings, call the package, print."""
