"""A fingerprint of an error: equal for errors that differ only in ids, numbers, paths, URLs and hosts. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from callsheet.wire.job_errors import reported_message

# Number of characters of a message that are compared. The rest is often the output of another program.
MAX_MESSAGE_LENGTH = 2000
FINGERPRINT = r"^[0-9a-f]{16}$"
_EXTENSIONS = "png|jpe?g|webp|gif|bmp|tiff?|mp4|webm|mov|mkv|avi|wav|mp3|flac|ogg|json|safetensors|ckpt|pt|pth|bin|py"
# The order matters: a URL contains a path, and a path contains numbers.
_REPLACED = [
    (re.compile(r"[a-z][a-z0-9+.-]*://[^\s\"'<>)\]]+"), "<url>"),
    (re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"), "<e-mail>"),
    (re.compile(r"\[?(?<![\w:])(?:[0-9a-f]{0,4}:){3,7}[0-9a-f]{0,4}(?![\w:])\]?(?::\d+)?"), "<host>"),
    (re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?(?![\w.])"), "<host>"),
    (re.compile(r"(?<![\w])(?:localhost|[\w-]+(?:\.[\w-]+)+):\d+(?!\w)"), "<host>"),
    (re.compile(r"(?<![\w/])(?:[a-z]:\\|~?/|\.{1,2}/)[^\s\"'<>:;,)\]]*[\w*]/?"), "<path>"),
    (re.compile(rf"[\w./-]*\w\.(?:{_EXTENSIONS})(?!\w)"), "<path>"),
    (re.compile(r"(?<![0-9a-z])(?:tq_)?[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}(?![0-9a-z])"), "<id>"),
    # Ids of other kinds: hexadecimal or long words with three digits.
    (re.compile(r"(?<!\w)0x[0-9a-f]+(?!\w)"), "<id>"),
    (re.compile(r"(?<![\w<])(?=(?:[a-z_-]*\d){3})(?=[\d_-]*[a-z])[a-z0-9_-]{12,}(?!\w)"), "<id>"),
    # A short hexadecimal id. Some have only digits and look like numbers, so both get the same replacement.
    (re.compile(r"(?<![\w<])(?=\d*[a-f])[0-9a-f]*\d[0-9a-f]{7,}(?!\w)"), "<number>"),
    (re.compile(r"[+-]?\d+(?:[.,:]\d+)*(?:e[+-]?\d+)?"), "<number>"),
]


def normalized(message: str) -> str:
    """The message as it is compared."""
    text = " ".join(message[:MAX_MESSAGE_LENGTH].lower().split())
    for pattern, instead in _REPLACED:
        text = pattern.sub(instead, text)
    return text


def fingerprint_of(error: Mapping[str, Any]) -> str:
    """The fingerprint: 16 hexadecimal digits. `error`: as a job stores it."""
    text = f"{error.get('type') or ''}\n{normalized(reported_message(error))}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]
