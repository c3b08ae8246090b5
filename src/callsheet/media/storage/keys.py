"""The allowed names of objects, and the values that are signed along with a name. Pure."""

from __future__ import annotations

import re
from urllib.parse import quote

from callsheet.media.storage.port import MAX_URL_SECONDS
from callsheet.wire.errors import InvalidRequest

MAX_KEY_BYTES = 1024
# On disk a capital letter takes two characters, and names end at 255 bytes.
MAX_SEGMENT_BYTES = 120
# Every level is an open descriptor while the local backend lists.
MAX_SEGMENTS = 32

# A leading dot is left out on purpose: it covers `.` and `..`, and SeaweedFS keeps its own things in `.uploads`.
_SEGMENT = re.compile(r"[A-Za-z0-9_=+@-][A-Za-z0-9._=+@-]*")
# Nearly all keys: one match instead of one for each segment.
_USUAL_KEY = re.compile(r"(?:[A-Za-z0-9_=+@-][A-Za-z0-9._=+@-]{0,119}/){0,7}[A-Za-z0-9_=+@-][A-Za-z0-9._=+@-]{0,119}")
_TOKEN = r"[A-Za-z0-9!#$&^_.+-]{1,100}"  # noqa: S105 (RFC 6838)
_CONTENT_TYPE = re.compile(rf'{_TOKEN}/{_TOKEN}( ?; ?{_TOKEN}=({_TOKEN}|"[A-Za-z0-9 !#-\[\]-~]{{0,100}}")){{0,4}}')
# Limit of file names that are signed, and that a header contains.
_UNSAFE_IN_NAMES = re.compile(r'[\x00-\x1f\x7f-\x9f"\\/\u2028\u2029\u202a-\u202e\u2066-\u2069]')
MAX_NAME_CHARACTERS = 200
_EXTENSION = re.compile(r"\.[A-Za-z0-9]{1,16}\Z")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def validate_key(key: str) -> str:
    if len(key) <= MAX_KEY_BYTES and _USUAL_KEY.fullmatch(key):
        return key
    if not key:
        raise InvalidRequest.field("key", "The key must not be empty.")
    # Length in characters first: matching a megabyte would take too long.
    if len(key) > MAX_KEY_BYTES:
        raise InvalidRequest.field("key", f"The key must have at most {MAX_KEY_BYTES} bytes.")
    segments = key.split("/")
    if len(segments) > MAX_SEGMENTS:
        raise InvalidRequest.field("key", f"The key must have at most {MAX_SEGMENTS} segments.")
    for segment in segments:
        if not _SEGMENT.fullmatch(segment):
            raise InvalidRequest.field(
                "key",
                "The key must be segments of letters, digits and . _ = + @ - separated by /. "
                "A segment must not be empty or start with a dot.",
            )
        if len(segment) > MAX_SEGMENT_BYTES:
            raise InvalidRequest.field("key", f"A segment of the key must have at most {MAX_SEGMENT_BYTES} bytes.")
    return key


def validate_folder(folder: str) -> str:
    """A key or nothing, with or without a slash at its end; returns it without."""
    bare = folder.removesuffix("/")
    return validate_key(bare) if bare else ""


def validate_content_type(content_type: str) -> str:
    if not _CONTENT_TYPE.fullmatch(content_type):
        raise InvalidRequest.field("content_type", "The value must be a media type, for example video/mp4.")
    return content_type


def validate_sha256(sha256: str | None) -> str | None:
    if sha256 is not None and not _SHA256.fullmatch(sha256):
        raise InvalidRequest.field("sha256", "The value must be 64 lower-case hexadecimal digits.")
    return sha256


def validate_size(size: int | None) -> int | None:
    if size is not None and size < 0:
        raise InvalidRequest.field("size", "The size must not be negative.")
    return size


def validate_seconds(seconds: int) -> int:
    if not 1 <= seconds <= MAX_URL_SECONDS:
        raise InvalidRequest.field("seconds", f"The value must be from 1 to {MAX_URL_SECONDS}.")
    return seconds


def clean_name(name: str) -> str:
    """A file name that can do no harm on any system it is saved on, nor in a header."""
    safe = _UNSAFE_IN_NAMES.sub("_", name.encode("utf-8", "replace").decode())
    # `..` is the folder above, `.profile` is read by a shell, and Windows forgets dots and spaces at the end.
    safe = safe.strip(". ")
    if len(safe) > MAX_NAME_CHARACTERS:
        # Systems choose the program for a file by its extension.
        extension = _EXTENSION.search(safe)
        ending = extension[0] if extension else ""
        safe = safe[: MAX_NAME_CHARACTERS - len(ending)].rstrip(". ") + ending
    return safe or "file"


def content_disposition(name: str) -> str:
    """RFC 6266: an ASCII name for all clients, the real one (RFC 5987) for those who can read it."""
    name = clean_name(name)
    plain = name.encode("ascii", "replace").decode().replace("?", "_").replace("%", "_")
    header = f'attachment; filename="{plain}"'
    return header if plain == name else f"{header}; filename*=UTF-8''{quote(name, safe='')}"
