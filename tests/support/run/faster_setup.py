"""Does setup once that nearly every test would repeat. It saves a third of the processor time of a test over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import certifi
from argon2 import PasswordHasher

from tests.support.http.accounts import PASSWORD

# The password of every user in these tests, and the one that each control plane checks for unknown users.
KNOWN = {PASSWORD.encode(), b"nobody has this password", "nobody has this password"}


@contextmanager
def known_passwords_hashed_once() -> Iterator[None]:
    """A hash takes 30 ms by design, and a test may have ten users. Any other password is hashed each time."""
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
    """Each HTTP client reads all certificates, which takes 20 ms, and no test connects to a server that has one."""
    first, end, _ = Path(certifi.where()).read_text().partition("-----END CERTIFICATE-----\n")
    file = directory / "certificate.pem"
    file.write_text(first + end)
    with patch("certifi.where", lambda: str(file)):
        yield
