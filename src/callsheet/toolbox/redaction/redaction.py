"""Removes secrets from texts that people read: users' messages, logs, events and the audit log. Pure.

A secret is recognized by the name before it (`password=…`, `X-Api-Key: …`) or by its own form (`secret_shapes.py`).
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Callable, Collection, Mapping
from datetime import date, datetime
from typing import cast

from pydantic import JsonValue

from callsheet.toolbox.redaction.secret_names import is_secret_key, mask_named
from callsheet.toolbox.redaction.secret_shapes import MASK, UUID, mask_shapes

Number = Callable[[int | float], object]

_DEEPEST = 8
# Maximum depth of JSON for admins: deeper than any report of an engine.
_MAX_JSON_DEPTH = 64
_USER_INFO = (
    # scheme://user:password@host; a number before a slash is a port.
    (re.compile(r"(://[^\s:/@]{0,200}):(?!\d{1,5}[/?#])[^\s\"'<>]{1,300}@"), rf"\1:{MASK}@"),
    # https://token@host, but not ssh://git@host.
    (re.compile(r"(\bhttps?://|://(?=[^\s:/@?#]{16}))[^\s:/@?#]{1,300}@", re.IGNORECASE), rf"\1{MASK}@"),
)
# curl -u name:password
_CURL_USER = re.compile(r"(\s(?:-u|--user)[ =]['\"]?[^\s:'\"]{1,100}:)[^\s'\"]+")

_SECRET_CHARACTERS = string.ascii_letters + string.digits + "_-+/=.~:@%$&"

# Names of events, states and modules, which are most of the logged texts. They contain neither a name with a value nor
# a secret.
_PLAIN_NAME = re.compile(r"[a-z_]{1,18}(?:\.[a-z_]{1,18}){0,5}")
# One cheap check decides for nearly every string that it contains no secret.
_MAY_SHOW = re.compile(r"[A-Za-z0-9_+/.:$-]{18}|AKIA|://|-----BEGIN|(?i:basic|bearer|apikey)\s| --?u")


def redact_text(text: str) -> str:
    """The text without the secrets in it."""
    if _PLAIN_NAME.fullmatch(text) is not None or UUID.fullmatch(text) is not None:
        return text
    text = mask_named(text)
    if _MAY_SHOW.search(text) is None:
        return text
    for pattern, replacement in _USER_INFO:
        text = pattern.sub(replacement, text)
    return mask_shapes(_CURL_USER.sub(rf"\1{MASK}", text))


def cut(text: str, max_length: int) -> str:
    """The first characters of a long text, without the word at the cut: half a secret cannot be recognized."""
    return text if len(text) <= max_length else text[:max_length].rstrip(_SECRET_CHARACTERS) + "…"


def redact_start(text: str, max_length: int) -> str:
    """The first characters of a long text, masked."""
    return redact_text(cut(text, max_length))


def redact(value: object, key: str = "") -> object:
    """A copy of the value that JSON can hold and that contains no secret. Never raises."""
    if type(value) is str:  # This is nearly everything that is logged, and nothing can fail.
        return MASK if key and is_secret_key(key) else redact_text(value)
    try:
        return _redact(value, key, _DEEPEST, _loggable)
    except Exception:  # noqa: BLE001 - a value that cannot be shown must not take the log line with it
        return f"<unprintable {type(value).__name__}>"


def redact_json(value: JsonValue) -> JsonValue:
    """A copy of a document without secrets. Everything else stays unchanged, including numbers of any size."""
    return cast("JsonValue", _redact(value, "", _MAX_JSON_DEPTH, lambda number: number))


def _redact(value: object, key: str, depth: int, number: Number) -> object:
    if value is None or isinstance(value, bool):
        return value
    if key and is_secret_key(key):
        return MASK
    if isinstance(value, str):
        return redact_text(str(value))
    if isinstance(value, int | float):
        return number(value)
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        return _redact_inside(value, depth - 1, number) if depth > 0 else "<too deep>"
    return redact_text(_text(value))


def _loggable(value: int | float) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    # Python refuses to write integers of more than 4,300 digits in decimal, and JSON readers stop at 64 bits.
    return value if -(2**63) <= value < 2**64 else f"{value:#x}"


def _redact_inside(value: Collection[object], depth: int, number: Number) -> object:
    if isinstance(value, Mapping):
        # {"name": "Authorization", "value": "…"} is how tools list headers and variables.
        named = value.get("name")
        keys = {"value": named} if isinstance(named, str) else {}
        pairs = [(key if isinstance(key, str) else _text(key), item) for key, item in value.items()]
        return {redact_text(key): _redact(item, keys.get(key, key), depth, number) for key, item in pairs}
    if isinstance(value, list | tuple) and len(value) == 2 and isinstance(value[0], str | bytes):
        # HTTP headers are pairs: the first element shows whether the second is secret.
        name = _text(value[0])
        return [redact_text(name), _redact(value[1], name, depth, number)]
    return [_redact(item, "", depth, number) for item in value]


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, datetime | date):
        return value.isoformat()
    return repr(value) if isinstance(value, BaseException) else str(value)
