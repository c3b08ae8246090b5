"""Cleans untrusted text for users: one line without internal information. Pure."""

from __future__ import annotations

import re

from callsheet.toolbox.redaction.redaction import cut, redact_text

MAX_MESSAGE_LENGTH = 300

_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]{0,20}://[^\s'\"<>)\]]+", re.IGNORECASE)
_QUOTED_PATH = re.compile(r"(['\"`])(?:/|[A-Za-z]:[\\/]|\\\\)[^'\"`]*\1")
_PATH = re.compile(r"(?<![\w.~/\\])(?:[A-Za-z]:[\\/]|\\\\|/(?=[\w.~$-]))[^\s'\"`,;:()<>\[\]]*")
_UNPRINTABLE = re.compile(r"[^\S ]|[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def clean_line(text: str) -> str:
    """The text as one line of limited length, without control characters, paths of the worker's machine, signed URLs
    and secrets.
    """
    line = " ".join(_UNPRINTABLE.sub(" ", cut(text, MAX_MESSAGE_LENGTH * 10)).split())
    line = _ADDRESS.sub("[address]", redact_text(line))
    line = _PATH.sub(_file_name, _QUOTED_PATH.sub(_file_name, line))
    return line if len(line) <= MAX_MESSAGE_LENGTH else line[: MAX_MESSAGE_LENGTH - 1].rstrip() + "…"


def _file_name(found: re.Match[str]) -> str:
    """The name of a file without its folder: the name may help, the folder is internal."""
    path = found[0].strip("'\"`").rstrip(".")
    name = re.split(r"[\\/]", path)[-1]
    return name if re.fullmatch(r"[\w-][\w.-]{0,60}\.[A-Za-z][A-Za-z0-9]{0,15}", name) else "[path]"
