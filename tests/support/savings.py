"""What nearly every test would do again, done once: a third of the processor time of a test over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import certifi
from argon2 import PasswordHasher

from tests.support.people import PASSWORD

# The password of every user in these tests, and the one that each control plane checks for unknown users.
KNOWN = {PASSWORD.encode(), b"nobody has this password", "nobody has this password"}


@contextmanager
def known_passwords_hashed_once() -> Iterator[None]:
    """A hash takes 30 ms on purpose, and ten people may take part in a test. Any other is hashed each time."""
    hash_anew, hashes = PasswordHasher.hash, dict[Any, str]()

    def hash(hasher: PasswordHasher, password: str | bytes, **given: Any) -> str:
        if given or password not in KNOWN:
            return hash_anew(hasher, password, **given)
        key = (password, hasher.time_cost, hasher.memory_cost, hasher.parallelism)
        if key not in hashes:
            hashes[key] = hash_anew(hasher, password)
        return hashes[key]

    with patch.object(PasswordHasher, "hash", hash):
        yield


@contextmanager
def one_certificate(directory: Path) -> Iterator[None]:
    """Every HTTP client reads all the certificates there are, 20 ms, and no test asks anybody who has one of them."""
    first, end, _ = Path(certifi.where()).read_text().partition("-----END CERTIFICATE-----\n")
    file = directory / "certificate.pem"
    file.write_text(first + end)
    with patch("certifi.where", lambda: str(file)):
        yield
