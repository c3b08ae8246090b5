"""Whether bytes are what their type says: refused only where they clearly are something else. Pure."""

from __future__ import annotations

import puremagic

SNIFFED_BYTES = 8192
MEDIA = frozenset({"image", "audio", "video"})
# One container holds either: an Ogg, an MP4 or a WebM without pictures is audio.
MOVING = frozenset({"audio", "video"})
# What puremagic says by fewer bytes than three is a guess.
CLEAR = 0.3
# Of what is no medium, only this is clear: many containers of media are registered as application/… too.
DOCUMENTS = (
    "text/html",
    "text/rtf",
    "text/xml",
    "application/gzip",
    "application/json",
    "application/msword",
    "application/pdf",
    "application/rtf",
    "application/vnd.ms-",
    "application/vnd.openxmlformats-",
    "application/x-7z-compressed",
    "application/x-rar",
    "application/x-sqlite3",
    "application/xhtml+xml",
    "application/xml",
    "application/zip",
)
PROGRAMS = (b"MZ", b"\x7fELF", b"#!")


def contradiction(mime_type: str, beginning: bytes) -> str | None:
    """What the bytes clearly are, if that is not `mime_type`; None where they may well be it, or nobody knows."""
    main_type = mime_type.partition("/")[0]
    if main_type not in MEDIA:
        return None
    if beginning.startswith(PROGRAMS):
        return "a program"
    # A drawing in XML is text, and begins as any other does.
    guesses = [] if mime_type.endswith("+xml") else _best_guesses(beginning)
    if any(_may_be(guess, main_type) for guess in guesses):
        return None
    return next((guess for guess in guesses if _is_clear(guess)), None)


def _best_guesses(beginning: bytes) -> list[str]:
    try:
        matches = puremagic.magic_string(beginning)
    except (puremagic.PureError, ValueError):
        return []
    named = [match for match in matches if match.mime_type and match.confidence >= CLEAR]
    best = max((match.confidence for match in named), default=0.0)
    return [match.mime_type for match in named if match.confidence == best]


def _may_be(guess: str, main_type: str) -> bool:
    guessed = guess.partition("/")[0]
    return guessed == main_type or {guessed, main_type} <= MOVING


def _is_clear(guess: str) -> bool:
    return guess.partition("/")[0] in MEDIA or guess.startswith(DOCUMENTS)
