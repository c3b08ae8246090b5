"""Ctrl-C while a command starts, and arguments that are not text."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.programs.commands import SECONDS, Callsheet, Result, wait_until_nothing_runs_in

# Sends the signal in the middle of the imports.
INTERRUPTED_IMPORT = """
import os, signal, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "callsheet.cli.installation.doctor":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
from callsheet.cli.start import main
main()
"""


def test_ctrl_c_during_the_imports_ends_the_command_without_a_traceback() -> None:
    command = [sys.executable, "-c", INTERRUPTED_IMPORT, "version"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


@contextmanager
def silent_server() -> Iterator[socket.socket]:
    """Accepts connections and never responds, like a database behind a firewall that drops its packets."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(SECONDS)
        yield server


def interrupted(callsheet: Callsheet, number: signal.Signals, server: socket.socket, *arguments: str) -> Result:
    with callsheet.running(*arguments) as command:
        connection, _ = server.accept()
        with connection:
            return command.end(number)


@pytest.mark.thorough
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_ends_a_start_that_waits_for_its_database(tmp_path: Path, number: signal.Signals, code: int) -> None:
    with silent_server() as server:
        dsn = f"postgresql://me:secret@127.0.0.1:{server.getsockname()[1]}/callsheet"
        callsheet = Callsheet(tmp_path, HOME=str(tmp_path), DATABASE__DSN=dsn)
        ended = interrupted(callsheet, number, server, "serve", "--port", "0")
    assert (ended.code, ended.out, ended.err) == (code, "", "")


@pytest.mark.thorough
def test_ctrl_c_ends_a_worker_that_looks_for_its_id(tmp_path: Path) -> None:
    with silent_server() as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        callsheet = Callsheet(tmp_path, HOME=str(tmp_path), WORKER__METADATA_URL=url, WORKER__SECRET="csf_" + "0" * 43)
        ended = interrupted(callsheet, signal.SIGINT, server, "worker")
    assert (ended.code, ended.out, ended.err) == (130, "", "")


@pytest.mark.thorough
def test_ctrl_c_at_a_terminal_during_the_first_start_leaves_nothing_that_stops_the_next(tmp_path: Path) -> None:
    home = tmp_path / "home"
    callsheet = Callsheet(tmp_path, HOME=str(home))
    with callsheet.running("demo", "--port", "0") as demo:
        demo.wait_for("Starting PostgreSQL")
        while not (list(home.glob("postgres/unfinished-*/data/base")) or (home / "postgres" / "data").exists()):
            pass
        # As a terminal does, to every process of the group: initdb runs now, or has just ended.
        ended = demo.end(signal.SIGINT, group=True)
    assert (ended.code, ended.out) == (130, "")
    assert ended.err.splitlines() == ["Starting PostgreSQL and the control plane …"]
    wait_until_nothing_runs_in(home)
    assert callsheet.succeed("demo", "--exit", "--port", "0").json["status"] == "ready"


@pytest.mark.parametrize("arguments", [("users", "list", b"\xff"), ("submit", b"caf\xe9.mp4"), (b"\xff",)])
def test_an_argument_that_is_not_utf_8_is_refused_in_one_sentence(
    tmp_path: Path, arguments: tuple[str | bytes, ...]
) -> None:
    given = [os.fsdecode(argument) for argument in arguments]
    refused = Callsheet(tmp_path, HOME=str(tmp_path)).call(*given)
    assert (refused.code, refused.out) == (2, "")
    shown = os.fsencode(given[-1]).decode("utf-8", "backslashreplace")
    assert refused.err == (
        f"callsheet: The argument {shown} is not UTF-8. Write it in UTF-8; rename a file whose name is not.\n"
    )
