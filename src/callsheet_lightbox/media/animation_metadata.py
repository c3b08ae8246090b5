"""Writes the graph into the files of animations, in ComfyUI's places: their encoder writes no metadata."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from PIL import Image

# The last chunk of a PNG, which is empty.
END = 12
# EXIF's fields for the model and the maker of a camera.
MODEL, MAKER = 0x0110, 0x010F
# The flags of a WebP that list its contents.
FEATURES = 20
HAS_EXIF, HAS_ALPHA = 0x08, 0x10


def add_to_png(path: Path, texts: Mapping[str, str]) -> None:
    """Writes chunks of ComfyUI's own type, because some readers stop at a text that follows the first image."""
    with path.open("r+b") as file:
        file.seek(-END, 2)
        end = file.read(END)
        file.seek(-END, 2)
        for key, text in texts.items():
            chunk = b"comf" + key.encode("latin-1") + b"\0" + text.encode("latin-1")
            file.write(struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk)))
        file.write(end)


def add_to_webp(path: Path, texts: Mapping[str, str]) -> None:
    exif = Image.Exif()
    rest = (text for text in texts.items() if text[0] != "prompt")
    exif[MODEL] = f"prompt:{texts['prompt']}"
    for number, (key, text) in enumerate(rest):
        exif[MAKER - number] = f"{key}:{text}"
    content = exif.tobytes().removeprefix(b"Exif\0\0")
    with path.open("r+b") as file:
        if file.read(16)[12:] != b"VP8X":
            _extend(file, path)
        file.seek(FEATURES)
        flags = file.read(1)[0]
        file.seek(FEATURES)
        file.write(bytes([flags | HAS_EXIF]))
        file.seek(0, 2)
        file.write(struct.pack("<4sI", b"EXIF", len(content)) + content + bytes(len(content) % 2))
        length = file.tell() - 8
        file.seek(4)
        file.write(struct.pack("<I", length))


def _extend(file: BinaryIO, path: Path) -> None:
    """Adds the chunk. If all images are the same, they become a single one, which has no list of features."""
    with Image.open(path) as image:
        flags = HAS_ALPHA if "A" in image.mode else 0
        width, height = ((side - 1).to_bytes(3, "little") for side in image.size)
    file.seek(12)
    image_data = file.read()
    file.seek(12)
    file.write(struct.pack("<4sII", b"VP8X", 10, flags) + width + height + image_data)
