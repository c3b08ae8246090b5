"""The web application: its built files and the rules they are served by. What it does, it does over the public API."""
