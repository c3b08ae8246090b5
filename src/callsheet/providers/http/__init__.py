"""Services over HTTP that are set up in the settings alone."""
