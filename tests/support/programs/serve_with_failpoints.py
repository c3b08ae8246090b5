"""`callsheet serve` that sends itself a signal when it reaches the named failpoints, one after the other.

python -m tests.support.programs.serve_with_failpoints SIGSTOP pipeline.chosen_before_submit
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from callsheet.cli.main import main
from callsheet.plumbing import failpoints
from callsheet.plumbing.failpoints import Failpoint

ROOT = Path(__file__).parents[3]


def program(number: signal.Signals, points: Sequence[Failpoint]) -> tuple[str, ...]:
    """The arguments for Python; `ROOT` must be on its path."""
    return "-m", __name__, number.name, ",".join(points)


def stop_at(number: signal.Signals, points: Sequence[Failpoint]) -> None:
    """Sends the signal once per failpoint. The second counts only after the first was reached."""
    left = list(points)

    async def stop(point: Failpoint) -> None:
        if left and point == left[0]:
            left.pop(0)
            os.kill(os.getpid(), number)

    failpoints._armed_for_process.update(dict.fromkeys(left, stop))


if __name__ == "__main__":
    stop_at(signal.Signals[sys.argv[1]], [Failpoint(name) for name in sys.argv[2].split(",") if name])
    sys.argv[1:] = ["serve"]
    main()
