"""A small picture of a large one. Pure and slow; `darkroom` runs it as a program: it imports nothing of Callsheet."""

from __future__ import annotations

import sys
from contextlib import suppress
from io import BytesIO

from PIL import Image, ImageOps, UnidentifiedImageError

MIME_TYPE = "image/webp"
EXTENSION = "webp"
# Enough for a gallery on a screen with two pixels to the point.
SIDE = 384
QUALITY = 78
# What decoding it takes in memory, four bytes each. Known from the header, before anything is decoded.
MOST_PIXELS = 50_000_000
# Readers that are neither small nor common are not handed what a worker sent.
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "AVIF")

# Those whose pixels can be mixed as they are: others are as many colours as they have bytes, or a palette.
PLAIN_MODES = ("L", "LA", "RGB", "RGBA")
# How a program says NoPicture.
REFUSED = 3
# Twice of what the largest picture takes, and what the interpreter takes.
MOST_MEMORY = 1024 * 1024 * 1024
MOST_SECONDS = 60


class NoPicture(Exception):
    """Of these bytes no small picture can be made; it says why."""


def small(content: bytes) -> bytes:
    """The picture, or the first of several, upright and within SIDE by SIDE, as WebP without anything else in it."""
    try:
        with Image.open(BytesIO(content), formats=FORMATS) as image:
            if image.width * image.height > MOST_PIXELS:
                raise NoPicture(f"it has {image.width} by {image.height} pixels")
            # A JPEG is decoded at an eighth where that is enough.
            image.draft("RGB", (SIDE * 2, SIDE * 2))
            # Made small first, and in its place: a copy of the largest takes 200 MB.
            plain = image if image.mode in PLAIN_MODES and "transparency" not in image.info else _converted(image)
            plain.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS, reducing_gap=2.0)
            upright = _converted(ImageOps.exif_transpose(plain))
        target = BytesIO()
        upright.save(target, "WEBP", quality=QUALITY, method=4, exif=b"", icc_profile=b"", xmp=b"")
    except NoPicture:
        raise
    except Image.DecompressionBombError:
        raise NoPicture("it has too many pixels") from None
    except UnidentifiedImageError:
        raise NoPicture("it is no picture that can be read") from None
    # What readers raise on broken files is anything, and something else with each version.
    except Exception as error:
        raise NoPicture(f"it cannot be read ({type(error).__name__})") from error
    return target.getvalue()


def _converted(image: Image.Image) -> Image.Image:
    return image.convert("RGBA" if image.has_transparency_data else "RGB")


def _limit() -> None:
    # Where the system has no such limits, the time that the caller waits is what is left.
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


def main() -> int:
    """From stdin to stdout."""
    _limit()
    try:
        made = small(sys.stdin.buffer.read())
    except NoPicture as reason:
        sys.stderr.write(str(reason))
        return REFUSED
    sys.stdout.buffer.write(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
