"""Names of files that fit their types: a file is saved under a name that ends with the extension of its type. Pure."""

from __future__ import annotations

import re
from mimetypes import MimeTypes
from typing import Final

from callsheet.toolbox.media_types import EXTENSIONS, same_format

UNKNOWN_TYPE: Final = "application/octet-stream"
_EXTENSION: Final = re.compile(r"\.([A-Za-z0-9]{1,16})\Z")
# Without the tables of the operating system, which differ from machine to machine. Versions of Python differ in these.
_TYPES: Final = MimeTypes()
for _extension, _type in {
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".glb": "model/gltf-binary",
    ".m4v": "video/x-m4v",
    ".ogv": "video/ogg",
    ".oga": "audio/ogg",
    ".apng": "image/apng",
    ".heif": "image/heif",
}.items():
    _TYPES.add_type(_type, _extension)
_TYPE_OF: Final = {extension: media_type for media_type, extension in EXTENSIONS.items()}


def named_as(name: str, media_type: str) -> str:
    """The name with the extension of the type: `a.png` of the type video/mp4 becomes `a.mp4`. The name stays as it is
    if its extension is one of the type, or if neither the extension nor the type is known."""
    media_type = media_type.partition(";")[0].strip().lower()
    found = _EXTENSION.search(name)
    named = _type_of(found[1].lower()) if found else None
    wanted = extension_of(media_type)
    if found and (_is_same(named, media_type) or (named is None and wanted is None)):
        return name
    return f"{name[: found.start()] if found and named else name}.{wanted or 'bin'}"


def _is_same(named: str | None, media_type: str) -> bool:
    return named is not None and (
        named == media_type or same_format(named, media_type) or same_format(media_type, named)
    )


def _type_of(extension: str) -> str | None:
    return _TYPE_OF.get(extension) or _TYPES.guess_type(f"file.{extension}", strict=False)[0]


def extension_of(media_type: str) -> str | None:
    """The usual extension of a type; None if there is none."""
    if media_type == UNKNOWN_TYPE:
        return None
    known = EXTENSIONS.get(media_type) or next(
        (each for main, each in EXTENSIONS.items() if same_format(media_type, main)), None
    )
    return known or (_TYPES.guess_extension(media_type, strict=False) or "").removeprefix(".") or None
