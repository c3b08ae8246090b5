"""The schemas: forward-only SQL files, one folder per kind of database, applied in order of their number."""
