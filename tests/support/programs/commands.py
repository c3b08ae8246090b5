"""Runs the `callsheet` command as users do: as a separate process, in its own directory.

callsheet.succeed("tenants", "list", "--json")             # the fixture `callsheet`: fails unless the exit code is 0
assert "There is no user" in callsheet.refuse("users", "delete", "ann@example.com")
with callsheet.running("serve") as server:                 # a process, until the block ends
    server.wait_for("control_plane.ready")
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import structlog
import typer

import callsheet.cli.main

SECONDS = 300
# Commands that listen for signals: they run until a signal stops them, or start a program that does.
STAYING = {("demo",), ("lightbox",), ("serve",), ("up",), ("worker",), ("db", "shell")}


@cache
def whole_command() -> Any:
    """The command line, built once: that takes 30 ms, nearly everything that a small command costs in a test."""
    return typer.main.get_command(callsheet.cli.main.app)


@dataclass(frozen=True, slots=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def sentence(self) -> str:
        """The message of a refused command: one line on standard error and nothing else."""
        assert (self.code, self.out) == (1, ""), self
        assert self.err.count("\n") == 1, self
        if self.err.startswith("{"):
            return str(json.loads(self.err)["detail"])
        assert self.err.startswith("callsheet: "), self
        return self.err.removeprefix("callsheet: ").rstrip("\n")


class Callsheet:
    """`run` one command to its end, or keep one `running`; `variables` are CALLSHEET_… without the prefix."""

    def __init__(self, directory: Path, **variables: str):
        self._directory = directory
        self._variables = variables

    def having(self, **variables: str) -> Callsheet:
        return Callsheet(self._directory, **{**self._variables, **variables})

    def run(self, *arguments: str, input: str | None = None) -> Result:
        """Runs a command. It runs in a separate process only if that matters: starting one takes a second of
        processor time.
        """
        if not {arguments[:1], arguments[:2]} & STAYING:
            result = self.call(*arguments, input=input or "")
            assert "Traceback" not in result.err, result.err
            return result
        return self.run_process(*arguments, input=input)

    def run_process(self, *arguments: str, input: str | None = None) -> Result:
        ended = subprocess.run(
            [sys.executable, "-m", "callsheet", *arguments],
            capture_output=True,
            # Not a terminal, also where the tests are run on one.
            **({"stdin": subprocess.DEVNULL} if input is None else {"input": input}),
            text=True,
            check=False,
            timeout=SECONDS,
            cwd=self._directory,
            env=self._environment(),
        )
        assert "Traceback" not in ended.stderr, ended.stderr
        return Result(ended.returncode, ended.stdout, ended.stderr)

    def at_terminal(self, *arguments: str, typed: str = "", columns: int = 80) -> Result:
        """In a process whose streams are a terminal, which mixes output and errors and echoes `typed`."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        environment = {name: value for name, value in self._environment().items() if name not in ("COLUMNS", "LINES")}
        process = subprocess.Popen(
            [sys.executable, "-m", "callsheet", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=self._directory,
            env={**environment, "TERM": "dumb"},
        )
        os.close(theirs)
        shown = b""
        with process, open(ours, "r+b", buffering=0) as terminal:
            terminal.write(typed.encode())
            # Linux raises an error where the process has ended; other systems return nothing.
            with suppress(OSError):
                while piece := terminal.read(65_536):
                    shown += piece
        return Result(process.returncode, shown.decode().replace("\r\n", "\n"), "")

    def succeed(self, *arguments: str, input: str | None = None) -> Result:
        result = self.run(*arguments, input=input)
        assert result.code == 0, result
        return result

    def refuse(self, *arguments: str, input: str | None = None) -> str:
        """The one sentence of a command that must fail."""
        return self.run(*arguments, input=input).sentence

    def call(self, *arguments: str, input: str = "") -> Result:
        """The command in this process; in a thread, because it runs an event loop of its own."""
        out, err = StringIO(), StringIO()

        def main() -> int:
            try:
                callsheet.cli.main.main()
            except SystemExit as ended:
                return int(ended.code or 0)
            return 0

        with (
            patch.dict(os.environ, self._environment(), clear=True),
            patch.object(callsheet.cli.main, "app", whole_command()),
            patch.object(sys, "argv", ["callsheet", *arguments]),
            patch.object(sys, "stdin", StringIO(input)),
            chdir(self._directory),
            _logs_as_before(),
            redirect_stdout(out),
            redirect_stderr(err),
            ThreadPoolExecutor(1) as thread,
        ):
            code = thread.submit(main).result()
        return Result(code, out.getvalue(), err.getvalue())

    @contextmanager
    def running(self, *arguments: str) -> Iterator[Running]:
        process = subprocess.Popen(
            [sys.executable, "-m", "callsheet", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self._directory,
            env=self._environment(),
            process_group=0,
        )
        with process:
            try:
                yield Running(process)
            finally:
                process.kill()

    def _environment(self) -> Mapping[str, str]:
        # The output of a command waits in a buffer until it is flushed, as it does for nearly every user.
        dropped = ("CALLSHEET_", "PG", "PYTHONUNBUFFERED")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
        return {**kept, **{f"CALLSHEET_{name}": value for name, value in self._variables.items()}}


class Running:
    def __init__(self, process: subprocess.Popen[str]):
        self._process = process
        self.err = ""

    def next_line(self) -> str:
        """The next line of standard output."""
        assert self._process.stdout
        return self._process.stdout.readline()

    def wait_for(self, text: str) -> str:
        """The line of standard error that contains the text."""
        assert self._process.stderr
        for line in self._process.stderr:
            self.err += line
            if text in line:
                return line
        raise AssertionError(f"it ended without saying {text!r}:\n{self.err}")

    def end(self, number: signal.Signals, *, group: bool = False) -> Result:
        """Ends the command. With `group`, the signal goes to all its programs, as Ctrl-C at a terminal does."""
        if group:
            os.killpg(self._process.pid, number)
        else:
            self._process.send_signal(number)
        out, err = self._process.communicate(timeout=SECONDS)
        return Result(self._process.returncode, out, self.err + err)


@contextmanager
def _logs_as_before() -> Iterator[None]:
    """Restores the logs, because a command sets up the logs of its process."""
    root, before = logging.getLogger(), structlog.get_config()
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        root.handlers[:], root.level = handlers, level
        logging.captureWarnings(False)
        structlog.configure(**before)


def processes_naming(directory: Path) -> list[str]:
    """The command lines of the processes that were started on something in this directory."""
    listed = subprocess.run(["ps", "-axww", "-o", "args="], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if f"{directory.resolve()}/" in line]


def wait_until_nothing_runs_in(directory: Path) -> None:
    deadline = time.monotonic() + SECONDS
    while found := processes_naming(directory):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
