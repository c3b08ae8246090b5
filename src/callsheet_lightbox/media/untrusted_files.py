"""Opens untrusted files: by their content, never as a list of other files, and within the limits of memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import av
from av.container import InputContainer
from PIL import Image

from callsheet_lightbox.media.frames import MAX_PIXELS, check_size

# FFmpeg also supports playlists (HLS, concat, DASH, SDP …): files that name others on this machine or in the network,
# which would be read.
CONTAINERS = (
    "mov", "matroska", "avi", "gif", "mpegts", "mpeg", "mpegvideo", "flv", "asf", "ogg", "ivf", "mxf", "dv", "nut",
    "yuv4mpegpipe", "h264", "hevc", "av1", "obu", "m4v", "apng", "wav", "mp3", "flac", "aac", "aiff", "amr", "w64",
)  # fmt: skip
# Pillow also knows EPS and WMF, programs that it has Ghostscript or the system run, and many formats that are not
# maintained.
IMAGE_FORMATS = (
    "PNG", "JPEG", "GIF", "WEBP", "AVIF", "BMP", "DIB", "TIFF", "ICO", "JPEG2000", "PPM", "TGA", "PSD", "DDS", "QOI",
)  # fmt: skip
# Pillow's own limit behind ours, which is a sentence and not a warning.
Image.MAX_IMAGE_PIXELS = 2 * MAX_PIXELS
_DECODING = {"max_pixels": str(MAX_PIXELS)}
_OPENING = {"format_whitelist": ",".join(CONTAINERS), "protocol_whitelist": "file", **_DECODING}


@contextmanager
def opened_media(path: Path) -> Iterator[InputContainer]:
    """Opens a video or a sound. Raises PyAV's error if the file is neither."""
    try:
        container = av.open(str(path), options=_OPENING)
    except av.error.ArgumentError:
        raise ValueError(f"{path.name} is not of an accepted type, or its images are too large") from None
    with container:
        for stream in container.streams.video:
            check_size(stream.codec_context.width, stream.codec_context.height)
            # For images that are larger than the file claimed at its start.
            stream.codec_context.options = dict(_DECODING)
        yield container


@contextmanager
def opened_image(file: Path | IO[bytes]) -> Iterator[Image.Image]:
    """Checks an image before it is decoded: a small file can contain a very large image."""
    with Image.open(file, formats=IMAGE_FORMATS) as image:
        check_size(*image.size)
        yield image
