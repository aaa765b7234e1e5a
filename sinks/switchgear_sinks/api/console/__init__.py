"""What the console's pages read, and what its operators do. Every page has a module."""
