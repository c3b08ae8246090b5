"""Services over HTTP that need only settings, no code."""
