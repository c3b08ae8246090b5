"""The only part of EXIF that changes how an image looks: its orientation."""

from __future__ import annotations

import struct

ORIENTATION = 0x0112
UPRIGHT = 1
PREFIX = b"Exif\0\0"
# A graph in the EXIF of an image can be large. The list of its fields has at most this length.
MAX_FIELDS = 1000


def only_orientation(exif: bytes) -> bytes | None:
    """New EXIF data with the orientation; None if the image is upright or nothing can be read."""
    turned = _orientation(exif.removeprefix(PREFIX))
    if turned is None or not UPRIGHT < turned <= 8:
        return None
    return struct.pack("<4sIHHHIHHI", b"II*\0", 8, 1, ORIENTATION, 3, 1, turned, 0, 0)


def _orientation(tiff: bytes) -> int | None:
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(tiff[:4])
    if order is None:
        return None
    try:
        [start] = struct.unpack_from(f"{order}I", tiff, 4)
        [count] = struct.unpack_from(f"{order}H", tiff, start)
        for number in range(min(count, MAX_FIELDS)):
            tag, kind, _, value = struct.unpack_from(f"{order}HHIH", tiff, start + 2 + 12 * number)
            if (tag, kind) == (ORIENTATION, 3):
                return int(value)
    except struct.error:
        pass
    return None
