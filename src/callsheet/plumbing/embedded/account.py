"""The user that the server runs as. PostgreSQL refuses to run as root, so root starts it as another user."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from callsheet.plumbing.embedded.binaries import ENVIRONMENT, Binaries
from callsheet.plumbing.embedded.layout import EmbeddedPostgresError, Layout
from callsheet.plumbing.embedded.locks import FileLock

# The first capability lets a process pass closed directories and read; by default, Docker grants root only the second.
CAPABILITIES = ("dac_read_search", "dac_override")


@dataclass(frozen=True, slots=True)
class Account:
    """The user of the server, and how to become that user. `user` is None if nothing has to change."""

    user: int | None = None
    group: int | None = None
    capability: str | None = None

    def command(self, *command: str | Path) -> list[str]:
        plain = [str(part) for part in command]
        if self.capability is None:
            return plain
        grant = f"+{self.capability}"
        return [
            "setpriv", f"--reuid={self.user}", f"--regid={self.group}", "--clear-groups",
            f"--inh-caps={grant}", f"--ambient-caps={grant}", "--pdeathsig=INT", "--", *plain,
        ]  # fmt: skip

    @property
    def switch(self) -> tuple[int | None, int | None]:
        """The user and group to change to before `command` runs. With setpriv both are None, because setpriv changes
        them itself.
        """
        return (None, None) if self.capability else (self.user, self.group)

    def run(self, *command: str | Path, holding: FileLock | None = None) -> subprocess.CompletedProcess[str]:
        user, group = self.switch
        become: dict[str, Any] = {} if user is None else {"user": user, "group": group, "extra_groups": []}
        return subprocess.run(  # noqa: S603
            self.command(*command),
            capture_output=True,
            text=True,
            cwd="/",
            env=ENVIRONMENT,
            pass_fds=[holding.fileno()] if holding else [],
            # Ctrl-C reaches every program of the terminal's group, and an incomplete cluster looks like a broken
            # machine.
            start_new_session=True,
            check=False,
            **become,
        )

    def take(self, path: Path) -> None:
        if self.user is not None and self.group is not None:
            os.chown(path, self.user, self.group)


def choose_account(layout: Layout, binaries: Binaries) -> Account:
    """The account of the server. For an ordinary user it is the same user; for root, an account that can reach data and
    programs.

    Closed parent directories (/root, a private temporary directory) are never opened to all users. Instead, the server
    gets the capability to pass them, but only if a trial without it fails: with it, the database's superuser can read
    any file of the machine.
    """
    if os.geteuid() != 0:
        return Account()
    user, group = _ordinary_user(layout)
    candidates = [Account(user, group)]
    if shutil.which("setpriv"):
        candidates += [Account(user, group, capability) for capability in CAPABILITIES]
    for candidate in candidates:
        if _reaches(candidate, layout, binaries):
            return candidate
    raise EmbeddedPostgresError(
        f"PostgreSQL does not run as root, and the user it would run as (uid {user}) may not enter "
        f"{layout.directory} or {binaries.directory}. Set CALLSHEET_HOME to a directory others may enter, "
        "install Callsheet where others may read it, or run it as an ordinary user."
    )


def _ordinary_user(layout: Layout) -> tuple[int, int]:
    # A cluster keeps the user for which it was created.
    for path in (layout.data, layout.home):
        if path.exists() and (owner := path.stat()).st_uid != 0:
            return owner.st_uid, owner.st_gid
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return entry.pw_uid, entry.pw_gid
    raise EmbeddedPostgresError(
        "PostgreSQL does not run as root, and this machine has neither a user `postgres` nor a user `nobody`. "
        "Run Callsheet as an ordinary user."
    )


def _reaches(account: Account, layout: Layout, binaries: Binaries) -> bool:
    """Whether the account reaches the paths. This is tried, because mode bits alone would miss ACLs, user namespaces
    and missing capabilities.
    """
    trial = 'cd "$1" && cd "$2" && exec "$3" --version'
    result = account.run("/bin/sh", "-c", trial, "sh", layout.directory, binaries.share, binaries.postgres)
    return result.returncode == 0
