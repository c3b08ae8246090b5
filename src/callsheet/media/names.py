"""Names of uploads in storage, and the types that may be uploaded. Pure."""

from __future__ import annotations

import mimetypes
import re
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID, uuid4

from callsheet.media.storage.keys import validate_content_type
from callsheet.toolbox.media_types import EXTENSIONS, same_format
from callsheet.wire.errors import InvalidRequest

# Together with the extension, this is well below the maximum length of a key segment.
MAX_STEM_CHARACTERS = 60
# Types that are registered as audio or video but are neither: they name other files. See `sniffing`.
PLAYLIST_TYPES = frozenset(
    {
        "audio/mpegurl",
        "audio/x-mpegurl",
        "audio/x-scpls",
        "audio/x-ms-wax",
        "video/vnd.mpegurl",
        "video/x-ms-asx",
        "video/x-ms-wvx",
    }
)
PARTS = "parts"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_EXTENSION = re.compile(r"\.[A-Za-z0-9]{1,10}$")


def upload_key(tenant_id: UUID, file_id: UUID, name: str, mime_type: str) -> str:
    return f"tenants/{tenant_id}/uploads/{file_id}/{safe_name(name, mime_type)}"


def parts_key(tenant_id: UUID, file_id: UUID, name: str, mime_type: str) -> str:
    """The key of a file that is uploaded in parts. No URL is ever signed for writing the whole file."""
    return f"tenants/{tenant_id}/uploads/{file_id}/{PARTS}/{safe_name(name, mime_type)}"


def is_in_parts(path: str) -> bool:
    """Whether the path of a file is one of `parts_key`."""
    return path.split("/")[4:5] == [PARTS] and path.count("/") == 5


class UploadOf(NamedTuple):
    tenant_id: UUID
    file_id: UUID
    path: str


def upload_of(key: str) -> UploadOf | None:
    """The upload whose file, or a part of it, has this key in storage. None for other keys."""
    match key.split("/"):
        case ["tenants", tenant_id, "uploads", file_id, _]:
            return UploadOf(UUID(tenant_id), UUID(file_id), key)
        case ["tenants", tenant_id, "uploads", file_id, parts, _, _] if parts == PARTS:
            return UploadOf(UUID(tenant_id), UUID(file_id), key.rpartition("/")[0])
        case _:
            return None


def is_upload(key: str) -> bool:
    """Whether a person uploads this object: a file of a user, or of the catalog. All other objects belong to jobs."""
    return upload_of(key) is not None or key.startswith("catalog/assets/")


def accepted_key(path: str) -> str:
    """A key beside the uploaded object. No URL is ever signed for writing to it."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/{uuid4().hex}/{name}"


def safe_name(name: str, mime_type: str) -> str:
    """A name of letters, digits, dots and dashes that resembles the original: `Übung 1/2 🎬.MP4` becomes
    `Ubung-1-2.mp4`.
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    tidy = _UNSAFE.sub("-", plain)
    found = _EXTENSION.search(tidy)
    stem = tidy[: found.start()] if found else tidy
    extension = found[0].lower() if found else ""
    if not _fits(extension, mime_type):
        known = EXTENSIONS.get(mime_type)
        extension = f".{known}" if known else mimetypes.guess_extension(mime_type) or ".bin"
    return f"{stem[:MAX_STEM_CHARACTERS].strip('.-_') or 'file'}{extension}"


def _fits(extension: str, mime_type: str) -> bool:
    """Whether the extension fits the type. Engines use the extension, so an extension of another type is replaced."""
    meant, packed = mimetypes.guess_type(f"file{extension}")
    same = meant is None or meant.partition("/")[0] == mime_type.partition("/")[0] or same_format(mime_type, meant)
    return bool(extension) and packed is None and same


def bare_type(mime_type: str) -> str:
    """The type without parameters: `Video/WebM; codecs=vp9`, as browsers send it, becomes `video/webm`."""
    try:
        validate_content_type(mime_type)
    except InvalidRequest:
        raise InvalidRequest.field("mime_type", "The value must be a media type, for example video/mp4.") from None
    return mime_type.partition(";")[0].strip().lower()


def is_allowed(mime_type: str, allowed: Iterable[str]) -> bool:
    main_type = mime_type.partition("/")[0]
    return any(pattern in (mime_type, f"{main_type}/*") for pattern in allowed)
