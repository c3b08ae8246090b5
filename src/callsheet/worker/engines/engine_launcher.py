"""Replaces itself by an engine that ends with the agent: `python engine_launcher.py AGENT_PID COMMAND…`.

It is a separate program, because code between fork and exec can deadlock in a process with threads. It imports nothing
of Callsheet, so it starts within milliseconds.
"""

import ctypes
import os
import signal
import sys
from contextlib import suppress

# From <sys/prctl.h>. Linux only; on other systems the next agent ends the engines of a killed one.
PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(sys.argv[1]):
        # The agent ended before the call of prctl.
        sys.exit(1)
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606 (the operator's own command)
