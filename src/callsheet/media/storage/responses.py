"""Which part of an object an HTTP request gets, and under which headers. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import format_datetime

from callsheet.media.storage.keys import clean_name, content_disposition
from callsheet.media.storage.port import ObjectInfo
from callsheet.toolbox.file_names import UNKNOWN_TYPE, named_as
from callsheet.wire.errors import RangeNotSatisfiable

# Objects are what users uploaded, served from our own origin: nothing in them may run, sniffed or declared.
# `img-src` and `media-src` let a browser show the file when its URL is opened in a tab.
ISOLATION_HEADERS: Mapping[str, str] = {
    "x-content-type-options": "nosniff",
    "content-security-policy": (
        "sandbox; default-src 'none'; img-src 'self'; media-src 'self'; style-src 'unsafe-inline'"
    ),
}
# More digits than a file can have bytes; int() of a million digits would take seconds.
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")


# No browser executes these, and all are sent as an attachment.
LISTED_DOCUMENTS = frozenset(
    {
        "application/gzip",
        "application/json",
        "application/pdf",
        "application/zip",
        "model/gltf-binary",
        "text/csv",
        "text/markdown",
        "text/plain",
    }
)


@dataclass(frozen=True, slots=True)
class Plan:
    """The response: the status and the bytes from `start` up to, not including, `end`."""

    status: int
    start: int
    end: int


def plan_response(request_headers: Mapping[str, str], info: ObjectInfo) -> Plan:
    """Follows RFC 9110: If-None-Match, then If-Range, then Range; raises RangeNotSatisfiable."""
    if _names(request_headers.get("if-none-match"), info.etag):
        return Plan(304, 0, 0)
    condition = request_headers.get("if-range")
    requested = request_headers.get("range")
    if requested is None or (condition is not None and condition not in (info.etag, http_date(info))):
        return Plan(200, 0, info.size)
    return plan_range(requested, info.size)


def plan_range(requested: str, size: int) -> Plan:
    """One range; several, or anything malformed, get the whole object, as RFC 9110 §14.2 allows."""
    match = _RANGE.fullmatch(requested.replace(" ", ""))
    if match is None or match.group(0) == "bytes=-":
        return Plan(200, 0, size)
    first, last = match.groups()
    if not first:
        start, end = max(size - int(last), 0), size
    else:
        start, end = int(first), min(int(last) + 1, size) if last else size
        if last and int(last) < start:
            return Plan(200, 0, size)
    if start >= size:
        raise RangeNotSatisfiable(size)
    return Plan(206, start, end)


def _names(header: str | None, etag: str) -> bool:
    if header is None:
        return False
    given = [part.strip().removeprefix("W/") for part in header.split(",")]
    return given == ["*"] or etag in given


def http_date(info: ObjectInfo) -> str:
    return format_datetime(info.modified_at, usegmt=True)


def response_headers(info: ObjectInfo, plan: Plan, download_name: str | None) -> dict[str, str]:
    headers = {
        "etag": info.etag,
        "last-modified": http_date(info),
        "accept-ranges": "bytes",
        "cache-control": "private",
        **ISOLATION_HEADERS,
    }
    if plan.status == 304:
        return headers
    headers["content-type"] = info.content_type
    headers["content-length"] = str(plan.end - plan.start)
    if plan.status == 206:
        headers["content-range"] = f"bytes {plan.start}-{plan.end - 1}/{info.size}"
    if download_name is not None:
        headers["content-disposition"] = content_disposition(download_name)
    elif not shows_inline(info.content_type):
        headers["content-disposition"] = "attachment"
    return headers


def served_type(mime_type: str) -> str:
    """The type that a result is served as. A worker declares the type of a result, so only media and some documents
    keep it: a browser must not take a result for a script, a style or a page of the origin that serves it."""
    bare = mime_type.partition(";")[0].strip().lower()
    return mime_type if shows_inline(bare) or bare in LISTED_DOCUMENTS else UNKNOWN_TYPE


def download_name(name: str, mime_type: str) -> str:
    """The name that a file is saved under. It ends with the extension of the type."""
    return clean_name(named_as(clean_name(name), mime_type))


def shows_inline(content_type: str) -> bool:
    """SVG can carry scripts; as an attachment it still shows in <img>."""
    kind = content_type.split(";")[0].strip().lower()
    return kind.startswith(("image/", "video/", "audio/")) and "svg" not in kind and "xml" not in kind
