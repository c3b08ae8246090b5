"""PostgreSQL without set-up: one server per data directory, which runs as long as a process uses it.

It works on Linux and macOS. Windows has no flock, so a DSN is needed there.
"""

from callsheet.plumbing.embedded.layout import EmbeddedPostgresError
from callsheet.plumbing.embedded.server import EmbeddedPostgres, stop
from callsheet.plumbing.embedded.status import EmbeddedStatus, status

__all__ = [
    "EmbeddedPostgres",
    "EmbeddedPostgresError",
    "EmbeddedStatus",
    "status",
    "stop",
]
