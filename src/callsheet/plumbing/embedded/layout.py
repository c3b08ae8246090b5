"""The files below `<home>/postgres`, including password, port and log."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from callsheet.toolbox.errors import OperatorError
from callsheet.toolbox.private_files import make_private, own_mode

# The superuser that initdb makes, and the role that Callsheet works as.
USER = "callsheet"
APPLICATION = "callsheet_app"
LOG_TAIL_LINES = 12


class EmbeddedPostgresError(OperatorError):
    """The embedded PostgreSQL server cannot be used. The message contains the reason and what to do."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths of one home. No process id is stored: a pid can be reused, a flock cannot."""

    home: Path

    @classmethod
    def of(cls, home: Path) -> Layout:
        # The path is resolved, because the server reports its data directory without symlinks, and the two are
        # compared.
        return cls(home.resolve())

    @property
    def directory(self) -> Path:
        return self.home / "postgres"

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def passfile(self) -> Path:
        """The file has libpq's passfile format, so that psql and pg_dump can use it."""
        return self.directory / "pgpass"

    @property
    def record(self) -> Path:
        return self.directory / "server.json"

    @property
    def log(self) -> Path:
        return self.directory / "log"

    @property
    def stop_mark(self) -> Path:
        """Present while the server is to stay down on purpose; the keeper stops when it appears."""
        return self.directory / "stop"

    @property
    def start_lock(self) -> Path:
        return self.directory / "start.lock"

    @property
    def users_lock(self) -> Path:
        return self.directory / "users.lock"

    @property
    def keeper_lock(self) -> Path:
        return self.directory / "keeper.lock"

    def prepare(self) -> None:
        """Creates the directory and the files that others open."""
        with self.accessible():
            make_private(self.home)
            if not self.directory.exists():
                make_private(self.directory)
                # This does not depend on the umask: as root, the server runs as another user and must reach data/.
                self.directory.chmod(own_mode())
                self._give_to_owner_of_home(self.directory)
            for path in (self.start_lock, self.users_lock, self.keeper_lock, self.log):
                os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
                self._give_to_owner_of_home(path)

    @contextmanager
    def accessible(self) -> Iterator[None]:
        """Turns an error of the file system into an error for operators."""
        try:
            yield
        except OSError as error:
            raise EmbeddedPostgresError(
                f"The database directory {self.directory} cannot be used ({error.strerror}: {error.filename}). "
                "Run as the user it belongs to, or set CALLSHEET_HOME to a directory of yours."
            ) from error

    def password(self, user: str = USER) -> str:
        try:
            return self._passwords()[user]
        except (FileNotFoundError, KeyError) as error:
            raise EmbeddedPostgresError(
                f"The password file {self.passfile} is missing. Restore it from a backup: one line "
                f"*:*:*:{user}:PASSWORD, readable by you alone."
            ) from error

    def find_password(self, user: str) -> str | None:
        return self._passwords().get(user)

    def make_password(self, user: str = USER) -> str:
        # The password has only letters and digits, so that nothing must be escaped in a DSN, a statement or a passfile.
        password = secrets.token_hex(24)
        # A new superuser belongs to a new cluster, which has no other role.
        known = {} if user == USER else self._passwords()
        lines = [f"*:*:*:{name}:{each}\n" for name, each in (known | {user: password}).items()]
        self._write(self.passfile, "".join(lines))
        return password

    def _passwords(self) -> dict[str, str]:
        lines = self.passfile.read_text().splitlines()
        return {user: password for _, user, password in (line.rsplit(":", 2) for line in lines if line.count(":") > 1)}

    def recorded_port(self) -> int | None:
        try:
            port = json.loads(self.record.read_text())["port"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return port if isinstance(port, int) and 0 < port < 65536 else None

    def record_port(self, port: int) -> None:
        self._write(self.record, json.dumps({"port": port}) + "\n")

    def mark_stopped(self) -> None:
        self._write(self.stop_mark, "Stopped on purpose; the next start removes this file.\n")

    def log_since(self, offset: int) -> str:
        with self.log.open("rb") as log:
            log.seek(offset)
            return log.read().decode(errors="replace")

    def failure(self, sentence: str, log: str | None = None) -> EmbeddedPostgresError:
        """An error that contains the end of the server's log."""
        log = self.log_since(0) if log is None else log
        tail = "\n".join(f"  {line}" for line in log.splitlines()[-LOG_TAIL_LINES:])
        return EmbeddedPostgresError(f"{sentence}\nThe log {self.log} ends with:\n{tail or '  (nothing)'}")

    def _write(self, path: Path, text: str) -> None:
        """Writes the file completely or not at all, even if the power fails."""
        temporary = path.with_name(f"{path.name}.new")
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        self._give_to_owner_of_home(temporary)
        temporary.replace(path)
        sync_directory(self.directory)

    def _give_to_owner_of_home(self, path: Path) -> None:
        """Gives files that root created in a user's home to that user, who could not use them otherwise."""
        if os.geteuid() == 0:
            owner = self.home.stat()
            os.chown(path, owner.st_uid, owner.st_gid)


def sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
