"""Becomes an engine that ends with the agent: `python engine_launcher.py AGENT_PID COMMAND…`.

A program of its own that imports nothing of Callsheet: code between fork and exec in a process with threads can
deadlock, and this starts within milliseconds.
"""

import ctypes
import os
import signal
import sys
from contextlib import suppress

# From <sys/prctl.h>. Linux only; elsewhere the next agent ends what a killed one left.
PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(sys.argv[1]):
        # The agent ended before the line above.
        sys.exit(1)
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606 (the operator's own command)
