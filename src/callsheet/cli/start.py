"""The entry point of `callsheet`. It handles Ctrl-C before it imports the commands, which takes a second."""

from __future__ import annotations

import os
import signal
from types import FrameType

INTERRUPTED = 130


def main() -> None:
    # Nothing was done yet, so nothing has to be undone. A handler that raises would print a traceback of imports. If a
    # shell lets background programs ignore the signal, that stays.
    is_usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_usual:
        signal.signal(signal.SIGINT, _leave)
    from callsheet.cli.main import main as run_command

    if is_usual:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run_command()


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)
