"""The keeper: a small process that runs PostgreSQL as its child for as long as a process uses it.

Run by path with `python -I -S`, never imported: the package would bring the database driver along (8 MB resident
without, 29 with). Standard library only, one thread: the server's parent-death signal is tied to the thread that
started it.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import signal
import sys
import time

POLL_SECONDS = 0.25
LOCK_SECONDS = 10
# A fast shutdown ends with a checkpoint, which takes its time on a slow disk. After this the server is ordered to drop
# everything; the next start recovers.
PATIENCE_SECONDS = 120
LOG_LIMIT_BYTES = 10 * 1024 * 1024
PR_SET_PDEATHSIG = 1
ENVIRONMENT = {"LC_ALL": "C", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}


def main(directory: str, user: str, group: str, *command: str) -> None:
    os.umask(0o077)
    lock = os.open(os.path.join(directory, "keeper.lock"), os.O_RDWR | os.O_CLOEXEC)
    # Only a passing look of `is_held` can be in the way; the alarm ends us should it be more than that.
    signal.alarm(LOCK_SECONDS)
    fcntl.flock(lock, fcntl.LOCK_EX)
    signal.alarm(0)
    # The caller waits for this first process, so the lock is held for certain when it goes on. The child shares the
    # lock, and as an orphan it leaves no zombie with the caller.
    if os.fork():
        os._exit(0)
    # The caller's start lock came along, so that no other process starts a keeper should the caller be killed
    # meanwhile.
    os.closerange(3, lock)
    os.closerange(lock + 1, 256)
    os.setsid()
    os.chdir("/")
    wakeup = _listen_to_signals()
    server = _start(user, group, command)
    _keep(directory, server, wakeup)


def _listen_to_signals() -> int:
    """Any of these ends the wait of the loop at once, through a pipe: a flag alone could be set just too early."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    return reading


def _start(user: str, group: str, command: tuple[str, ...]) -> int:
    keeper = os.getpid()
    server = os.fork()
    if server:
        return server
    try:
        signal.set_wakeup_fd(-1)
        if user:
            os.setgroups([])
            os.setgid(int(group))
            os.setuid(int(user))
        if sys.platform == "linux":
            # After setuid, which would clear it. SIGINT is a fast shutdown: killing the keeper is a clean stop.
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)
            if os.getppid() != keeper:
                os._exit(1)
        os.execvpe(command[0], command, ENVIRONMENT)  # noqa: S606
    except OSError as error:
        os.write(2, f"keeper: cannot run {command[0]}: {error}\n".encode())
    finally:
        os._exit(127)


def _keep(directory: str, server: int, wakeup: int) -> None:
    users = os.open(os.path.join(directory, "users.lock"), os.O_RDWR | os.O_CLOEXEC)
    stop_mark = os.path.join(directory, "stop")
    while not _ended(server):
        if _told_to_stop(wakeup) or os.path.exists(stop_mark) or _nobody_left(users):
            # `users` stays locked to the end: a process that comes now waits until the server is down, then starts
            # anew.
            _shut_down(server)
            return
        if os.fstat(2).st_size > LOG_LIMIT_BYTES:
            os.ftruncate(2, 0)
        select.select([wakeup], [], [], POLL_SECONDS)


def _told_to_stop(wakeup: int) -> bool:
    try:
        received = os.read(wakeup, 4096)
    except BlockingIOError:
        return False
    return signal.SIGTERM in received or signal.SIGINT in received


def _nobody_left(users: int) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _shut_down(server: int) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not _ended(server):
        # Again and again, which does no harm: between fork and exec the server still has our handler and would lose it.
        os.kill(server, signal.SIGINT if time.monotonic() < deadline else signal.SIGQUIT)
        for _ in range(100):
            if _ended(server):
                return
            time.sleep(0.01)


def _ended(server: int) -> bool:
    return os.waitpid(server, os.WNOHANG)[0] == server


if __name__ == "__main__":
    main(*sys.argv[1:])
