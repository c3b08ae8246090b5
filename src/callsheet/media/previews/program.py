"""Makes thumbnails, posters, clips and waveforms. `sandbox` runs this file as a separate program, so it imports nothing
of Callsheet.

It reads the file through its parent and writes the previews to stdout, in frames: a letter, a length and a payload. `R`
requests bytes (offset, length). `F` is a finished file (name, NUL, content). `I` comes last and describes the original.
`N` comes instead of `I` and contains the reason why there is no preview.
"""

from __future__ import annotations

import importlib.util
import io
import json
import math
import struct
import sys
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, BinaryIO

from PIL import Image, ImageOps, ImageStat, UnidentifiedImageError

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

FRAME = struct.Struct(">cI")
WANTED = struct.Struct(">QI")
LENGTH = struct.Struct(">I")

SMALL, LARGE, CLIP = "small.webp", "large.webp", "clip.mp4"
# The sizes are enough for a card on a screen with two pixels per point, and for a player that has not started.
SMALL_SIDE, LARGE_SIDE = 384, 1280
QUALITY = 78
# Decoding an image needs four bytes of memory per pixel. The number is read from the header, before anything is
# decoded.
MAX_PIXELS = 50_000_000
# 8K. A decoder keeps up to sixteen frames, so large frames reach the memory limit.
MAX_VIDEO_PIXELS = 36_000_000
# Only small and common readers get untrusted files.
IMAGE_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "AVIF")
# Modes whose pixels can be blended directly. Other modes have another number of bytes per color, or a palette.
PLAIN_MODES = ("L", "LA", "RGB", "RGBA")
DECODERS = frozenset(
    {"h264", "hevc", "vp8", "vp9", "libvpx", "libvpx-vp9", "av1", "libdav1d", "mpeg4", "mpeg2video", "mpeg1video"}
    | {"mjpeg", "prores", "theora", "gif", "h263", "flv"}
)
MAX_STREAMS = 32
MAX_DURATION_SECONDS = 10_000_000.0
# Maximum number of packets that are read for the few seconds of a clip, and how many of them may be broken.
MAX_PACKETS = 5_000
MAX_BROKEN = 100
# Frames per second of a clip.
FRAME_RATE = 15
# A frame with less contrast is black, white or empty, and does not show the video.
MIN_CONTRAST = 8.0

BLOCK_BYTES = 1 << 20
KEPT_BLOCKS = 8
# Twice the memory of the largest image, plus the memory of the interpreter.
MAX_MEMORY = 1024 * 1024 * 1024


class NoPreview(Exception):
    """No preview can be made of this file. The message contains the reason."""


class PreviewSource(io.RawIOBase):
    """The file. The parent sends the requested parts."""

    def __init__(self, responses: BinaryIO, requests: BinaryIO, size: int) -> None:
        self._responses = responses
        self._requests = requests
        self._size = size
        self._position = 0
        self._blocks: OrderedDict[int, bytes] = OrderedDict()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        length = max(0, min(len(view), self._size - self._position))
        done = 0
        while done < length:
            number, skipped = divmod(self._position, BLOCK_BYTES)
            piece = self._block(number)[skipped : skipped + length - done]
            if not piece:
                break
            view[done : done + len(piece)] = piece
            done += len(piece)
            self._position += len(piece)
        return done

    def _block(self, number: int) -> bytes:
        found = self._blocks.get(number)
        if found is None:
            start = number * BLOCK_BYTES
            send(self._requests, b"R", WANTED.pack(start, min(BLOCK_BYTES, self._size - start)))
            (length,) = LENGTH.unpack(self._responses.read(LENGTH.size))
            found = self._blocks[number] = self._responses.read(length)
            if len(self._blocks) > KEPT_BLOCKS:
                self._blocks.popitem(last=False)
        self._blocks.move_to_end(number)
        return found


def send(target: BinaryIO, letter: bytes, payload: bytes) -> None:
    target.write(FRAME.pack(letter, len(payload)))
    target.write(payload)
    target.flush()


def image_previews(source: io.RawIOBase) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Previews of the image, or of the first image in the file: upright, in two sizes, as WebP without metadata."""
    try:
        with Image.open(io.BufferedReader(source, BLOCK_BYTES), formats=IMAGE_FORMATS) as image:
            width, height = image.size
            if width * height > MAX_PIXELS:
                raise NoPreview(f"the image has too many pixels ({width} x {height})")
            # A JPEG is decoded at an eighth of its size if that is enough.
            image.draft("RGB", (LARGE_SIDE * 2, LARGE_SIDE * 2))
            if image.getexif().get(0x0112) in (5, 6, 7, 8):
                width, height = height, width
            # The image is reduced first, without a copy: a copy of the largest image takes 200 MB.
            plain = image if image.mode in PLAIN_MODES and "transparency" not in image.info else _converted(image)
            plain.thumbnail((LARGE_SIDE, LARGE_SIDE), Image.Resampling.LANCZOS, reducing_gap=2.0)
            upright = _converted(ImageOps.exif_transpose(plain))
    except Image.DecompressionBombError:
        raise NoPreview("the image has too many pixels") from None
    except UnidentifiedImageError:
        raise NoPreview("the file is not a readable image") from None
    return _in_two_sizes(upright), {"width": width, "height": height}


def _in_two_sizes(image: Image.Image) -> dict[str, bytes]:
    large = _webp(image)
    image.thumbnail((SMALL_SIDE, SMALL_SIDE), Image.Resampling.LANCZOS)
    return {SMALL: _webp(image), LARGE: large}


def _webp(image: Image.Image) -> bytes:
    target = io.BytesIO()
    image.save(target, "WEBP", quality=QUALITY, method=4, exif=b"", icc_profile=b"", xmp=b"")
    return target.getvalue()


def _converted(image: Image.Image) -> Image.Image:
    return image.convert("RGBA" if image.has_transparency_data else "RGB")


def video_previews(source: io.RawIOBase, side: int, seconds: float) -> tuple[dict[str, bytes], dict[str, Any]]:
    """A poster in two sizes, and the first seconds without sound, at most `side` pixels wide and high."""
    import av

    # Only the reader that the first bytes name is used, which opens nothing else: a playlist would name other files.
    options = {
        "probesize": "4194304",
        "analyzeduration": "3000000",
        "max_streams": str(MAX_STREAMS),
        "protocol_whitelist": "none",
    }
    av.logging.set_level(None)
    with av.open(source, "r", format=_format_of(source), options=options, metadata_errors="ignore") as container:
        # Not every reader respects the option.
        if len(container.streams) > MAX_STREAMS:
            raise NoPreview(f"the file has too many streams ({len(container.streams)})")
        stream = next(iter(container.streams.video), None)
        if stream is None:
            raise NoPreview("the file has no video stream")
        context = stream.codec_context
        if context.codec.name not in DECODERS:
            raise NoPreview(f"the codec {context.codec.name[:40]} is not supported")
        _require_few_pixels(context.width, context.height)
        context.thread_count = 1
        clip = PreviewClip(side, _ratio(stream))
        for frame in _sampled(container, stream, seconds):
            clip.add(frame)
        if clip.poster is None:
            raise NoPreview("the video has no readable frame")
        facts = {**clip.facts, "duration_seconds": _duration(container, stream)}
        return {**_in_two_sizes(clip.poster), CLIP: clip.finished()}, facts


def audio_previews(source: io.RawIOBase) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The waveform in two sizes."""
    module = _waveform_module()
    try:
        image, seconds = module.waveform(source)
    except module.NoSound as reason:
        raise NoPreview(str(reason)) from None
    return _in_two_sizes(image), {"duration_seconds": seconds}


def _waveform_module() -> ModuleType:
    # The isolated interpreter of this program does not search its folder.
    spec = importlib.util.spec_from_file_location("waveform", Path(__file__).with_name("waveform.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _format_of(source: io.RawIOBase) -> str:
    beginning = source.read(400) or b""
    source.seek(0)
    if beginning[4:8] in (b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot"):
        return "mov"
    for magic, name in ((b"\x1aE\xdf\xa3", "matroska"), (b"OggS", "ogg"), (b"FLV", "flv"), (b"GIF8", "gif")):
        if beginning.startswith(magic):
            return name
    if beginning.startswith(b"RIFF") and beginning[8:12] == b"AVI ":
        return "avi"
    if beginning.startswith(b"\x00\x00\x01\xba"):
        return "mpeg"
    if beginning[:1] == b"G" and beginning[188:189] == b"G":
        return "mpegts"
    raise NoPreview("the file is not a readable video")


def _require_few_pixels(width: int, height: int) -> None:
    if width * height > MAX_VIDEO_PIXELS:
        raise NoPreview(f"the video has too many pixels ({width} x {height})")


def _ratio(stream: VideoStream) -> float:
    """The ratio of width to height of one pixel."""
    ratio = float(stream.sample_aspect_ratio or 1)
    return ratio if 0.1 < ratio < 10 else 1.0


def _duration(container: InputContainer, stream: VideoStream) -> float | None:
    if stream.duration and stream.time_base:
        seconds = float(stream.duration * stream.time_base)
    else:
        seconds = (container.duration or 0) / 1_000_000
    return round(seconds, 3) if 0 < seconds < MAX_DURATION_SECONDS else None


def _sampled(container: InputContainer, stream: VideoStream, seconds: float) -> Iterator[tuple[VideoFrame, int]]:
    """Frames of the first seconds, at most FRAME_RATE per second, each with its position in the clip."""
    first: float | None = None
    last = -1
    for number, frame in enumerate(_frames(container, stream)):
        _require_few_pixels(frame.width, frame.height)
        moment = number / FRAME_RATE if frame.pts is None else frame.time
        first = moment if first is None else first
        place = math.floor((moment - first) * FRAME_RATE + 0.001)
        if place >= seconds * FRAME_RATE or number > MAX_PACKETS:
            return
        if place > last:
            last = place
            yield frame, place


def _frames(container: InputContainer, stream: VideoStream) -> Iterator[VideoFrame]:
    import av

    broken = 0
    for packets, packet in enumerate(container.demux(stream)):
        try:
            yield from packet.decode()
        except av.FFmpegError:
            broken += 1
        if packets > MAX_PACKETS or broken > MAX_BROKEN:
            return


class PreviewClip:
    """Encodes frames as a silent H.264 video, which every browser plays. One frame becomes the poster."""

    def __init__(self, side: int, ratio: float) -> None:
        self.poster: Image.Image | None = None
        self.facts: dict[str, Any] = {}
        self._has_good_poster = False
        self._side = side
        self._ratio = ratio
        self._target = io.BytesIO()
        self._container: Any = None
        self._stream: Any = None

    def add(self, sampled: tuple[VideoFrame, int]) -> None:
        frame, place = sampled
        image = self._image(frame, self._side)
        if self.poster is None or (not self._has_good_poster and _has_contrast(image)):
            self._has_good_poster = _has_contrast(image)
            self.poster = self._image(frame, LARGE_SIDE)
        self._encode(image, place)

    def _image(self, frame: VideoFrame, side: int) -> Image.Image:
        """The frame as an upright image with square pixels and even sides of at most `side`."""
        shown_width = frame.width * self._ratio
        turns = round(frame.rotation / 90) % 4
        if not self.facts:
            upright = (round(shown_width), frame.height)
            self.facts = dict(zip(("width", "height"), reversed(upright) if turns % 2 else upright, strict=True))
        scale = min(1.0, side / max(shown_width, frame.height))
        width, height = _even(shown_width * scale), _even(frame.height * scale)
        # The methods of PyAV are not typed.
        image: Image.Image = frame.reformat(width=width, height=height, format="rgb24").to_image()  # type: ignore[no-untyped-call]
        return image.rotate(90 * turns, expand=True) if turns else image

    def _encode(self, image: Image.Image, place: int) -> None:
        import av

        if self._container is None:
            # The index is at the beginning, so that the clip plays while it loads.
            self._container = av.open(self._target, "w", format="mp4", options={"moov_size": "8192"})
            options = {"preset": "veryfast", "crf": "29", "maxrate": "1500k", "bufsize": "3000k", "threads": "1"}
            self._stream = self._container.add_stream("libx264", rate=FRAME_RATE, options=options)
            self._stream.width, self._stream.height, self._stream.pix_fmt = *image.size, "yuv420p"
        size = (self._stream.width, self._stream.height)
        frame = av.VideoFrame.from_image(image if image.size == size else image.resize(size))  # type: ignore[no-untyped-call]
        frame.pts = place
        self._container.mux(self._stream.encode(frame))

    def finished(self) -> bytes:
        self._container.mux(self._stream.encode(None))
        self._container.close()
        return self._target.getvalue()


def _even(length: float) -> int:
    return max(2, round(length / 2) * 2)


def _has_contrast(image: Image.Image) -> bool:
    return ImageStat.Stat(image.convert("L")).stddev[0] >= MIN_CONTRAST


def _limit(cpu_seconds: int, niceness: int) -> None:
    # If the system has no such limits, only the timeout of the parent remains.
    with suppress(ImportError, OSError, ValueError):
        import os
        import resource

        os.nice(niceness)
        # SIGXCPU comes first and shows why the process ended. A process that ignores it is killed a second later.
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
        # The process writes no files.
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def previews_of(kind: str, source: io.RawIOBase, side: int, seconds: float) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The previews, and the description of the original. Raises NoPreview."""
    try:
        match kind:
            case "image":
                return image_previews(source)
            case "audio":
                return audio_previews(source)
        return video_previews(source, side, seconds)
    except NoPreview:
        raise
    # Readers can raise anything on broken files, and other errors with each version.
    except Exception as error:
        raise NoPreview(f"the file cannot be read ({type(error).__name__})") from error


def main() -> int:
    responses, target = sys.stdin.buffer, sys.stdout.buffer
    task = json.loads(responses.readline())
    _limit(task["cpu_seconds"], task["niceness"])
    source = PreviewSource(responses, target, task["size"])
    try:
        made, facts = previews_of(task["kind"], source, task["side"], task["seconds"])
    except NoPreview as reason:
        send(target, b"N", str(reason).encode())
        return 0
    for name, content in made.items():
        send(target, b"F", name.encode() + b"\0" + content)
    send(target, b"I", json.dumps(facts).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
