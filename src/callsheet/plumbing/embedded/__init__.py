"""PostgreSQL without set-up: one server per data directory that lives exactly as long as a process uses it.

Linux and macOS; Windows has no flock, so there a DSN is needed.
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
