"""Serves the built files of the web application. The application itself uses only the public API."""
