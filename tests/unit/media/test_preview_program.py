"""Small images of large ones."""

from __future__ import annotations

from contextlib import suppress
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from callsheet.media.previews.program import LARGE, LARGE_SIDE, MAX_PIXELS, SMALL, SMALL_SIDE, NoPreview, previews_of


def encoded(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    target = BytesIO()
    image.save(target, kind, **options)
    return target.getvalue()


def made_of(content: bytes) -> dict[str, bytes]:
    return previews_of("image", BytesIO(content), 0, 0)[0]


def small(content: bytes) -> bytes:
    return made_of(content)[SMALL]


def opened(content: bytes) -> Image.Image:
    image = Image.open(BytesIO(content))
    image.load()
    return image


@pytest.mark.few_forms
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"])
def test_a_large_image_becomes_small_ones_of_the_same_shape(kind: str) -> None:
    made = opened(small(encoded(Image.new("RGB", (1600, 800), "red"), kind)))
    assert (made.format, made.size) == ("WEBP", (SMALL_SIDE, SMALL_SIDE // 2))
    red, green, blue = made.convert("RGB").getpixel((10, 10))  # type: ignore[misc]
    large = opened(made_of(encoded(Image.new("RGB", (1600, 800), "red"), kind))[LARGE])
    assert large.size == (LARGE_SIDE, LARGE_SIDE // 2)
    assert red > 200
    assert green < 60
    assert blue < 60


def test_a_small_image_is_not_made_larger() -> None:
    assert opened(small(encoded(Image.new("RGB", (20, 10))))).size == (20, 10)


def test_a_transparent_image_stays_transparent() -> None:
    assert opened(small(encoded(Image.new("RGBA", (600, 600), (0, 0, 0, 0))))).has_transparency_data


def test_a_rotated_image_is_made_upright_and_loses_its_camera_metadata() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    exif[0x010F] = "a camera"
    made = opened(small(encoded(Image.new("RGB", (800, 400)), "JPEG", exif=exif)))
    assert made.size == (SMALL_SIDE // 2, SMALL_SIDE)
    assert not made.getexif()


def test_an_image_with_too_many_pixels_is_refused_by_its_header_before_decoding() -> None:
    side = int(MAX_PIXELS**0.5) + 1
    with pytest.raises(NoPreview, match="pixels"):
        small(encoded(Image.new("1", (side, side))))


@pytest.mark.parametrize("content", [b"", b"<html>", b"\x89PNG\r\n\x1a\n and so on", b"%!PS-Adobe-3.0 EPSF-3.0\n"])
def test_a_file_that_is_not_an_image_is_refused(content: bytes) -> None:
    with pytest.raises(NoPreview):
        small(content)


IMAGE = encoded(Image.effect_noise((64, 64), 80).convert("RGB"))


@given(st.integers(min_value=0, max_value=len(IMAGE) - 1), st.binary(min_size=1, max_size=8))
def test_a_broken_image_is_refused_or_previewed_without_another_error(at: int, noise: bytes) -> None:
    for broken in (IMAGE[:at], IMAGE[:at] + noise + IMAGE[at + len(noise) :]):
        with suppress(NoPreview):
            assert opened(small(broken)).size[0] >= 1
