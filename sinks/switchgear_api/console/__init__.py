"""The console: its pages, what they read, and what operators do there. Each page has a module."""
