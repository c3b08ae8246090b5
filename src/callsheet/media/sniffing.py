"""Compares the bytes of a file with its declared type. A file is refused only if its bytes are clearly of another
type. Pure.
"""

from __future__ import annotations

import re

import puremagic

from callsheet.toolbox.media_types import SNIFFED_BYTES as FORMAT_BYTES
from callsheet.toolbox.media_types import media_type_of, same_format

SNIFFED_BYTES = 8192
# The number of bytes that FFmpeg reads before it chooses a demuxer (its `format_probesize`).
PROBED_BYTES = 1 << 20
UNKNOWN_TYPE = "application/octet-stream"
MEDIA = frozenset({"image", "audio", "video"})
# One container can hold either: an Ogg, an MP4 or a WebM without images is audio.
MOVING = frozenset({"audio", "video"})
# A result of puremagic that is based on fewer than three bytes is a guess.
CLEAR = 0.3
# Types that are certainly not media. Other application/… types may be containers of media.
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
# Playlists name other files, on the machine that reads them or in its network. An engine that opens a playlist with
# FFmpeg fetches those files.
_PLAYLISTS = tuple(
    (re.compile(rb"(?:\xef\xbb\xbf)?\s*" + pattern, re.IGNORECASE), kind)
    for pattern, kind in (
        (rb"#EXT(?:M3U|-X-)", "an HLS playlist (m3u8)"),
        (rb"ffconcat\b", "a list of files for FFmpeg (ffconcat)"),
        (rb"v=\d+\s*[\r\n]", "a session description (SDP)"),
        (rb"\[(?:playlist|reference)\]", "a playlist"),
        (rb"(?:rtsp|smil)text", "a playlist"),
        (rb"# ?mpv EDL", "a playlist"),
    )
)
# FFmpeg treats a file as one of these if such a text is anywhere before the first NUL.
_HIDDEN_PLAYLISTS = (
    (re.compile(rb"[\r\n]c=IN IP", re.IGNORECASE), "a session description (SDP)"),
    (re.compile(rb"<MPD\b", re.IGNORECASE), "a DASH manifest"),
    (re.compile(rb"<CompositionPlaylist\b"), "a playlist"),
)
_CONTROL_CHARACTERS = bytes(set(range(32)) - set(b"\t\n\v\f\r"))


def contradiction(mime_type: str, beginning: bytes) -> str | None:
    """The actual type of the bytes, if it is clearly not `mime_type`. None if the bytes may be of `mime_type`, or are
    unknown.

    `beginning`: at least `SNIFFED_BYTES`. With `PROBED_BYTES`, no hidden playlist is missed.
    """
    main_type = mime_type.partition("/")[0]
    if main_type not in MEDIA:
        return None
    if beginning.startswith(PROGRAMS):
        return "a program"
    playlist = _playlist(beginning)
    if playlist is not None:
        return playlist
    # A drawing in XML is text, and starts like any other text.
    guesses = [] if mime_type.endswith("+xml") else _best_guesses(beginning[:SNIFFED_BYTES])
    if any(_may_be(guess, main_type) for guess in guesses):
        return None
    clear = next((guess for guess in guesses if _is_clear(guess)), None)
    return clear or ("text" if main_type in MOVING and _is_text(beginning[:SNIFFED_BYTES]) else None)


def actual_type(mime_type: str, beginning: bytes) -> str:
    """The type that a result is served with: the type of its bytes, or `mime_type` if the bytes may be of that type."""
    found = media_type_of(beginning[:FORMAT_BYTES])
    # A tag does not show the type of the content after it.
    if found is not None and _tag_length(beginning) == 0:
        return mime_type if same_format(mime_type, found) else found
    return mime_type if contradiction(mime_type, beginning) is None else UNKNOWN_TYPE


def _playlist(beginning: bytes) -> str | None:
    # FFmpeg skips one ID3 tag before it detects the type.
    looked_at = beginning[_tag_length(beginning) :]
    for pattern, kind in _PLAYLISTS:
        if pattern.match(looked_at):
            return kind
    # FFmpeg reads a known container as this container, even if it also contains such a text.
    if media_type_of(looked_at[:FORMAT_BYTES]) is not None:
        return None
    text = looked_at.partition(b"\0")[0]
    return next((kind for pattern, kind in _HIDDEN_PLAYLISTS if pattern.search(text)), None)


def _tag_length(beginning: bytes) -> int:
    """Length of the ID3v2 tag at the beginning, with its header; 0 if there is none."""
    if len(beginning) < 10 or not beginning.startswith(b"ID3") or any(byte & 0x80 for byte in beginning[6:10]):
        return 0
    size = 0
    for byte in beginning[6:10]:
        size = size << 7 | byte
    has_footer = beginning[5] & 0x10
    return 10 + size + (10 if has_footer else 0)


def _is_text(beginning: bytes) -> bool:
    """Whether the bytes are text. No container of audio or video is text; a program that reads text as media treats
    it as a playlist or a script.
    """
    return bool(beginning) and len(beginning.translate(None, _CONTROL_CHARACTERS)) == len(beginning)


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
