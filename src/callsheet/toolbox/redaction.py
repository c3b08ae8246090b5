"""Keeps secrets out of logs, and makes every logged value something JSON can hold."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from datetime import date, datetime
from functools import lru_cache

MASK = "***"

_DEEPEST = 8
_SECRET_ANYWHERE = frozenset(
    {"password", "passwd", "pwd", "passphrase", "secret", "secrets", "dsn"}
    | {"authorization", "cookie", "cookies", "credential", "credentials"}
)
# As the last word only: `lease_token` is a secret, but `token_count` and a wallet's `tokens` are not.
_SECRET_AT_END = frozenset({"token", "bearer", "jwt", "signature", "apikey"})
_SECRET_KEYS = frozenset({"api", "access", "secret", "private", "signing", "master", "encryption", "session"})
# What stands after a secret's name when the value is about it, not the secret itself.
_HARMLESS_AT_END = frozenset(
    {"id", "ids", "name", "names", "count", "type", "kind", "secure", "file", "path"}
    | {"seconds", "minutes", "hours", "days", "age", "expires", "length", "size", "bytes"}
)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

# One cheap look decides for nearly every string that none of the patterns below can match.
_SUSPICIOUS = re.compile(r"://|passw|pwd|bearer|secret|token|signature|credential|api_?key", re.IGNORECASE)
_PATTERNS = (
    # scheme://user:password@host. Starting at :// and stopping at / keeps it linear on long input.
    (re.compile(r"(://[^\s:/@]*):[^\s/]+@"), rf"\1:{MASK}@"),
    # password=…, 'password': '…' and the signature of a signed address, but not "password: is too short".
    (
        re.compile(
            r"((?:password|passwd|pwd|secret|token|signature|credential|api_?key)(?:\s?=\s?|['\"]\s?:\s?))"
            r"(?:'[^']*'|\"[^\"]*\"|['\"]?[^\s&;,\"']+)",
            re.IGNORECASE,
        ),
        rf"\1{MASK}",
    ),
    (re.compile(r"\b(bearer\s+)[\w.~+/=-]{8,}", re.IGNORECASE), rf"\1{MASK}"),
)


@lru_cache(maxsize=4096)
def is_secret_key(key: str) -> bool:
    """Whether a field of this name holds a secret."""
    words = [word.lower() for word in _WORDS.findall(key)]
    if not words or words[-1] in _HARMLESS_AT_END:
        return False
    if words[-1] in _SECRET_AT_END or not _SECRET_ANYWHERE.isdisjoint(words):
        return True
    return words[-1] == "key" and len(words) > 1 and words[-2] in _SECRET_KEYS


def redact_text(text: str) -> str:
    """The text without the passwords, bearer tokens and signatures in the addresses it mentions."""
    if _SUSPICIOUS.search(text) is None:
        return text
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def redact(value: object, key: str = "") -> object:
    """A copy of the value that JSON can hold and that shows no secret. Never raises."""
    if type(value) is str:  # nearly everything that is logged, and nothing can go wrong with it
        return MASK if key and is_secret_key(key) else redact_text(value)
    try:
        return _redact(value, key, 0)
    except Exception:  # noqa: BLE001 - a value that cannot be shown must not take the log line with it
        return f"<unprintable {type(value).__name__}>"


def _redact(value: object, key: str, depth: int) -> object:
    if value is None or isinstance(value, bool):
        return value
    if key and is_secret_key(key):
        return MASK
    if isinstance(value, str):
        return redact_text(str(value))
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        return _redact_inside(value, depth + 1)
    return redact_text(_text(value))


def _number(value: int | float) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    # Python refuses to write integers of more than 4,300 digits in decimal, and JSON readers stop at 64 bits.
    return value if -(2**63) <= value < 2**64 else f"{value:#x}"


def _redact_inside(value: Collection[object], depth: int) -> object:
    if depth > _DEEPEST:
        return "<too deep>"
    if isinstance(value, Mapping):
        pairs = ((key if isinstance(key, str) else _text(key), item) for key, item in value.items())
        return {key: _redact(item, key, depth) for key, item in pairs}
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str | bytes):
        # HTTP headers travel as pairs: the first says whether the second is secret.
        name = _text(value[0])
        return [redact_text(name), _redact(value[1], name, depth)]
    return [_redact(item, "", depth) for item in value]


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, datetime | date):
        return value.isoformat()
    return repr(value) if isinstance(value, BaseException) else str(value)
