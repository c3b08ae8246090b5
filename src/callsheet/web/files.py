"""The built files of the web application, read once. A request can name only one of them, and no other path."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Final

# `make web` builds into this folder. In a wheel, the folder contains the files.
STATIC: Final = Path(str(resources.files("callsheet.web").joinpath("static")))
INDEX: Final = "/index.html"
MEDIA_TYPES: Final[Mapping[str, str]] = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
    ".png": "image/png",
    ".webp": "image/webp",
    ".ico": "image/x-icon",
    ".webmanifest": "application/manifest+json",
}
# The suffix of a compressed form, and its name in Accept-Encoding; the smaller form first.
ENCODINGS: Final[Mapping[str, str]] = {"br": ".br", "gzip": ".gz"}
# The bundler adds a hash of the content to the name.
_HASHED = re.compile(r"/assets/.+-[A-Za-z0-9_-]{8}\.[a-z0-9]+")


@dataclass(frozen=True, slots=True)
class StaticFile:
    media_type: str
    content: bytes
    # Compressed forms by encoding.
    encoded: Mapping[str, bytes] = field(default_factory=dict)
    # A file under this name never changes.
    is_immutable: bool = False
    etag: str = ""


@lru_cache(4)
def read_files(directory: Path) -> Mapping[str, StaticFile]:
    """The built files by URL path. Empty if nothing was built."""
    if not directory.joinpath(INDEX[1:]).is_file():
        return {}
    paths = (path for path in directory.rglob("*") if path.suffix in MEDIA_TYPES and path.is_file())
    return {f"/{path.relative_to(directory).as_posix()}": _read(path, directory) for path in paths}


def _read(path: Path, directory: Path) -> StaticFile:
    content = path.read_bytes()
    encoded = {name: path.with_name(path.name + suffix) for name, suffix in ENCODINGS.items()}
    return StaticFile(
        media_type=MEDIA_TYPES[path.suffix],
        content=content,
        encoded={name: form.read_bytes() for name, form in encoded.items() if form.is_file()},
        is_immutable=_HASHED.fullmatch(f"/{path.relative_to(directory).as_posix()}") is not None,
        etag=hashlib.sha256(content).hexdigest()[:32],
    )
