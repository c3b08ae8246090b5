"""A small picture of a large one. Pure, and slow: for a thread."""

from __future__ import annotations

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
            upright = ImageOps.exif_transpose(image)
            plain = upright.convert("RGBA" if upright.has_transparency_data else "RGB")
        plain.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS, reducing_gap=2.0)
        target = BytesIO()
        plain.save(target, "WEBP", quality=QUALITY, method=4)
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
