"""Agents on this machine as separate processes, which continue when the control plane that started them ends.

Each agent has a directory that is named after its id, with its log, its data and its PID. The PID alone proves nothing:
another program may have it by now. A process is the agent if its command line has the id, which is random and never
used twice.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from callsheet.toolbox.private_files import make_private

RECORD = "agent.json"
PID = "pid"
LOG = "agent.log"
TOKEN = "token"  # noqa: S105
# Files with a time in seconds since 1970: when the agent was asked to stop, and when it was found to be gone.
ENDING = "ending"
GONE = "gone"
# The process writes its PID itself before it becomes the agent: a control plane that crashes at any line leaves no
# unknown agent.
SCRIPT = 'echo $$ >"$0.draft" && mv "$0.draft" "$0" && exec "$@"'
SHELL = "/bin/sh"
COMMAND = (sys.executable, "-m", "callsheet", "worker")
KEPT_DIRECTORIES = 10
# Checks of a process without a command line until it has one again: two seconds, because a busy machine may stop it in
# the middle of its `exec`.
MAX_CHECKS = 2000
POLL_SECONDS = 0.001


@dataclass(frozen=True, slots=True)
class LocalAgent:
    directory: Path
    worker_id: str
    host: str
    # Index of the fleet's engine and GPU that the agent uses.
    place: int
    started_at: float

    @classmethod
    def read(cls, directory: Path) -> LocalAgent | None:
        """None for a directory that has no record of an agent, or not yet."""
        try:
            record = json.loads((directory / RECORD).read_text("utf-8"))
            return cls(directory, record["worker_id"], record["host"], record["place"], record["started_at"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    @property
    def log(self) -> Path:
        return self.directory / LOG

    @property
    def ending_since(self) -> float | None:
        return _read_moment(self.directory / ENDING)

    @property
    def gone_since(self) -> float | None:
        return _read_moment(self.directory / GONE)

    def is_alive(self, now: float, start_seconds: float) -> bool:
        """Whether the process runs, or was started less than `start_seconds` ago and has not written its PID yet.

        The PID is read once: it may be written between two reads, and the agent would seem to be gone.
        """
        pid = self._pid()
        if pid is None:
            return self.started_at <= now < self.started_at + start_seconds
        return _runs_agent(pid, self.worker_id)

    def end(self, now: float, number: signal.Signals = signal.SIGTERM) -> None:
        """Signals the agent to stop, if it still runs."""
        if self.ending_since is None:
            _write(self.directory / ENDING, repr(now))
        pid = self._pid()
        if pid is not None:
            _signal(pid, self.worker_id, number)

    def note_gone(self, now: float) -> None:
        if self.gone_since is None:
            _write(self.directory / GONE, repr(now))

    def last_line(self) -> str:
        """The last line of the log: an agent that cannot start writes the reason there."""
        try:
            lines = self.log.read_bytes()[-4096:].decode("utf-8", "replace").splitlines()
        except OSError:
            return ""
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def _pid(self) -> int | None:
        try:
            return int((self.directory / PID).read_text())
        except (OSError, ValueError):
            return None


class LocalAgents:
    """The agents of one fleet on this machine, in the order of their starts."""

    def __init__(self, directory: Path, host: str, command: Sequence[str] = COMMAND):
        self._directory = directory
        self._host = host
        self._command = command

    def all(self) -> list[LocalAgent]:
        """Includes agents that are gone, as long as their directories are kept. Agents of another machine are left out,
        because their processes are not visible here."""
        if not self._directory.is_dir():
            return []
        found = (LocalAgent.read(directory) for directory in self._directory.iterdir())
        mine = [agent for agent in found if agent is not None and agent.host == self._host]
        return sorted(mine, key=lambda agent: (agent.started_at, agent.worker_id))

    def start(
        self, prefix: str, place: int, now: float, arguments: Sequence[str], environment: Mapping[str, str], stdin: int
    ) -> tuple[LocalAgent, int]:
        """Returns the agent and its PID; the process is a child of this one."""
        worker_id = f"{prefix}-{secrets.token_hex(4)}"
        agent = LocalAgent(self._directory / worker_id, worker_id, self._host, place, now)
        make_private(agent.directory)
        record = {"worker_id": worker_id, "host": self._host, "place": place, "started_at": now}
        _write(agent.directory / RECORD, json.dumps(record))
        command = [*self._command, "--id", worker_id, *arguments]
        append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        pid = os.posix_spawn(
            SHELL,
            [SHELL, "-c", SCRIPT, str(agent.directory / PID), *command],
            {**environment, "CALLSHEET_HOME": str(agent.directory)},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, stdin, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(agent.log), append, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            # Ctrl-C in the control plane's terminal must not reach the agents.
            setsid=True,
        )
        return agent, pid

    def token(self) -> str | None:
        """The stored registration token of the agents."""
        try:
            return (self._directory / TOKEN).read_text("utf-8").strip() or None
        except OSError:
            return None

    def keep_token(self, token: str) -> None:
        make_private(self._directory)
        _write(self._directory / TOKEN, token)

    def prune(self) -> None:
        """Deletes directories of agents that are gone, except the latest, whose logs operators may need."""
        gone = [agent for agent in self.all() if agent.gone_since is not None]
        for agent in gone[:-KEPT_DIRECTORIES]:
            shutil.rmtree(agent.directory, ignore_errors=True)


def worker_prefix(host: str, slug: str) -> str:
    """The names of the machine and the fleet, in characters that are valid in an id."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", f"{host.split('.')[0]}-{slug}").strip("-.") or "worker"


def _command_line(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except FileNotFoundError:
        if Path("/proc/self").exists():
            return []
    except OSError:
        return []
    # Not Linux. The agent's arguments have no spaces.
    listed = subprocess.run(  # noqa: S603
        ["/bin/ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return listed.stdout.split()


def _runs_agent(pid: int, worker_id: str) -> bool:
    """False for a process that has ended and was not waited for yet: it no longer has a command line.

    A process also has none for a moment while `exec` replaces the shell by the agent, so it is checked again.
    """
    for _ in range(MAX_CHECKS):
        words = _command_line(pid)
        if any(words) or not _is_running(pid):
            break
        time.sleep(POLL_SECONDS)
    return ("--id", worker_id) in pairwise(words)


def _is_running(pid: int) -> bool:
    """Whether a process without a command line still runs. False if its state cannot be read."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _signal(pid: int, worker_id: str, number: signal.Signals) -> None:
    """Signals this agent and never another program with the same PID: a pidfd always refers to one process."""
    try:
        held = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    except OSError:
        return
    try:
        if not _runs_agent(pid, worker_id):
            return
        if held is not None:
            signal.pidfd_send_signal(held, number)
        else:
            os.kill(pid, number)
    except ProcessLookupError:
        return
    finally:
        if held is not None:
            os.close(held)


def _read_moment(file: Path) -> float | None:
    try:
        return float(file.read_text())
    except (OSError, ValueError):
        return None


def _write(file: Path, text: str) -> None:
    """Writes the file atomically."""
    draft = file.with_name(f"{file.name}.draft")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as written:
        written.write(text)
    draft.replace(file)
