"""Code that several commands share: the HTTP client, the login, values, tables and messages."""
