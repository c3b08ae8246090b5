"""The keeper: a small process that runs PostgreSQL as its child for as long as a process uses it.

It is run by path with `python -I -S` and never imported: the package would load the database driver (8 MB resident
memory without it, 29 with it). It uses only the standard library and one thread: the server's parent-death signal is
tied to the thread that started it.
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
# A fast shutdown ends with a checkpoint, which takes long on a slow disk. After this time the server must stop at once;
# the next start recovers.
PATIENCE_SECONDS = 120
LOG_LIMIT_BYTES = 10 * 1024 * 1024
PR_SET_PDEATHSIG = 1
ENVIRONMENT = {"LC_ALL": "C", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}


def main(directory: str, user: str, group: str, *command: str) -> None:
    os.umask(0o077)
    lock = os.open(os.path.join(directory, "keeper.lock"), os.O_RDWR | os.O_CLOEXEC)
    # Only a short check of `is_held` can hold this lock. If it is more than that, the alarm ends this process.
    signal.alarm(LOCK_SECONDS)
    fcntl.flock(lock, fcntl.LOCK_EX)
    signal.alarm(0)
    # The caller waits for this first process, so the lock is held when the caller continues. The child shares the lock,
    # and as an orphan it leaves no zombie with the caller.
    if os.fork():
        os._exit(0)
    # The start lock of the caller is inherited, so that no other process starts a keeper if the caller is killed
    # meanwhile.
    os.closerange(3, lock)
    os.closerange(lock + 1, 256)
    os.setsid()
    os.chdir("/")
    wakeup = _listen_to_signals()
    server = _start(user, group, command)
    _keep(directory, server, wakeup)


def _listen_to_signals() -> int:
    """Lets any of these signals end the wait of the loop at once, through a pipe: a flag alone could be set just too
    early.
    """
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
            # This runs after setuid, which would clear it. SIGINT is a fast shutdown, so killing the keeper is a clean
            # stop.
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
        if _received_stop_signal(wakeup) or os.path.exists(stop_mark) or _is_unused(users):
            # `users` stays locked to the end: a process that comes now waits until the server is down, then starts a
            # new one.
            _shut_down(server)
            return
        if os.fstat(2).st_size > LOG_LIMIT_BYTES:
            os.ftruncate(2, 0)
        select.select([wakeup], [], [], POLL_SECONDS)


def _received_stop_signal(wakeup: int) -> bool:
    try:
        received = os.read(wakeup, 4096)
    except BlockingIOError:
        return False
    return signal.SIGTERM in received or signal.SIGINT in received


def _is_unused(users: int) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _shut_down(server: int) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not _ended(server):
        # The signal is sent repeatedly, which does no harm: between fork and exec the server still has our handler and
        # would lose it.
        os.kill(server, signal.SIGINT if time.monotonic() < deadline else signal.SIGQUIT)
        for _ in range(100):
            if _ended(server):
                return
            time.sleep(0.01)


def _ended(server: int) -> bool:
    return os.waitpid(server, os.WNOHANG)[0] == server


if __name__ == "__main__":
    main(*sys.argv[1:])
