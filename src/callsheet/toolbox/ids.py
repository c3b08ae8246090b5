"""Identifiers that sort by time, and secrets that cannot be guessed."""

from __future__ import annotations

import math
import os
import secrets
import string
import sys
import threading
import time
import uuid
from datetime import UTC, datetime

_ALPHABET = string.digits + string.ascii_letters
_COUNTER_BITS = 42
_MAX_MILLISECONDS = 2**48 - 1


class _Sequence:
    """RFC 9562 §6.2, method 1: 48 bits of milliseconds, a 42-bit counter, 32 bits of randomness."""

    def __init__(self, *, forwards_only: bool) -> None:
        self._lock = threading.Lock()
        self._forwards_only = forwards_only
        self._milliseconds = -1
        self._counter = 0

    def next(self, milliseconds: int) -> uuid.UUID:
        random = int.from_bytes(os.urandom(10))
        with self._lock:
            if self._forwards_only:
                # After the clock was set back, the last millisecond is kept, so that new rows sort after old ones.
                milliseconds = max(milliseconds, self._milliseconds)
            if milliseconds == self._milliseconds:
                self._counter += 1
            else:
                self._milliseconds = milliseconds
                # The top bit starts at zero, so that one millisecond has room for 2**41 ids.
                self._counter = random >> (80 - _COUNTER_BITS + 1)
            return _layout(milliseconds, self._counter, random & 0xFFFF_FFFF)


def _layout(milliseconds: int, counter: int, random: int) -> uuid.UUID:
    counter_high, counter_low = counter >> 30, counter & 0x3FFF_FFFF
    value = milliseconds << 80 | 0x7 << 76 | counter_high << 64 | 0b10 << 62 | counter_low << 32 | random
    return uuid.UUID(int=value)


_by_the_clock = _Sequence(forwards_only=True)
_by_given_time = _Sequence(forwards_only=False)


def uuid7(now_ms: int | None = None) -> uuid.UUID:
    """A UUIDv7. The ids of one process sort in the order of their creation, also within a millisecond.

    With `now_ms` the id contains exactly that millisecond; successive ids of the same millisecond still ascend.
    """
    if now_ms is not None:
        if not 0 <= now_ms <= _MAX_MILLISECONDS:
            raise ValueError("now_ms must be milliseconds since 1970")
        return _by_given_time.next(now_ms)
    if sys.version_info >= (3, 14):
        return uuid.uuid7()
    return _by_the_clock.next(time.time_ns() // 1_000_000)


def time_of(identifier: uuid.UUID) -> datetime:
    """The creation time of a UUIDv7."""
    return datetime.fromtimestamp((identifier.int >> 80) / 1000, UTC)


def secret_token(prefix: str, entropy_bytes: int = 32) -> str:
    """A random secret like `csk_0aZ…`. It has only letters and digits, so it can be used in URLs and shells and
    selected by a double click.
    """
    number = int.from_bytes(secrets.token_bytes(entropy_bytes))
    digits = []
    for _ in range(math.ceil(entropy_bytes * 8 / math.log2(len(_ALPHABET)))):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return f"{prefix}_{''.join(digits)}"
