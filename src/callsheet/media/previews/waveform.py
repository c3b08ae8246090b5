"""Reads the loudness of a sound over time and draws it. `program` runs this file in its process, so it imports nothing
of Callsheet.
"""

from __future__ import annotations

import io
from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw

if TYPE_CHECKING:
    from av.audio.frame import AudioFrame
    from av.audio.stream import AudioStream
    from av.container import InputContainer

DECODERS = frozenset(
    {"mp3", "mp3float", "flac", "vorbis", "opus", "libopus", "aac", "alac", "pcm_u8", "pcm_mulaw", "pcm_alaw"}
    | {"pcm_s16le", "pcm_s16be", "pcm_s24le", "pcm_s32le", "pcm_f32le", "pcm_f64le"}
)
# A longer sound is drawn up to here: a decoder needs about a second for each of these limits.
MAX_SECONDS = 600.0
MAX_BYTES = 128 * 1024 * 1024
MAX_STREAMS = 32
MAX_BROKEN = 100
MAX_RATE = 768_000
LOUDEST = 32_767
# A recording that is never louder than this part of the maximum is drawn as silence.
MIN_LOUDNESS = 0.01
# The shape fits the row of a list and the place above a player. The color can be seen on light and on dark pages.
BARS, PITCH, BAR, HEIGHT = 120, 10, 6, 400
COLOR = (224, 98, 42, 255)


class NoSound(Exception):
    """The file has no readable sound. The message contains the reason."""


def waveform(source: io.RawIOBase) -> tuple[Image.Image, float | None]:
    """The waveform as an image with transparent ground, and the duration in seconds."""
    import av

    # Only the reader that the first bytes name is used, which opens nothing else: a playlist would name other files.
    options = {"probesize": "4194304", "max_streams": str(MAX_STREAMS), "protocol_whitelist": "none"}
    av.logging.set_level(None)
    with av.open(source, "r", format=_format_of(source), options=options, metadata_errors="ignore") as container:
        stream = next(iter(container.streams.audio), None)
        if stream is None:
            raise NoSound("the file has no sound")
        context = stream.codec_context
        if context.codec.name not in DECODERS:
            raise NoSound(f"the codec {context.codec.name[:40]} is not supported")
        if not 0 < context.sample_rate <= MAX_RATE:
            raise NoSound("its sampling rate is not supported")
        context.thread_count = 1
        peaks, seconds = _peaks(container, stream, source)
    if not peaks:
        raise NoSound("the file has no readable sound")
    return _drawn(peaks), seconds


def _format_of(source: io.RawIOBase) -> str:
    beginning = source.read(400) or b""
    source.seek(0)
    for magic, name in ((b"fLaC", "flac"), (b"OggS", "ogg"), (b"\x1aE\xdf\xa3", "matroska"), (b"ID3", "mp3")):
        if beginning.startswith(magic):
            return name
    if beginning[:4] in (b"RIFF", b"RF64") and beginning[8:12] == b"WAVE":
        return "wav"
    if beginning[4:8] in (b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide"):
        return "mov"
    if beginning[:1] == b"\xff" and beginning[1:2] in (b"\xf0", b"\xf1", b"\xf8", b"\xf9"):
        return "aac"
    if beginning[:1] == b"\xff" and beginning[1:2] >= b"\xe0":
        return "mp3"
    raise NoSound("the file is not a readable sound")


def _peaks(container: InputContainer, stream: AudioStream, source: io.RawIOBase) -> tuple[list[int], float | None]:
    """The largest amplitude of each piece, and the duration: counted, if the sound was read to its end."""
    peaks: list[int] = []
    seconds = 0.0
    for frame in _frames(container, stream):
        samples = array("h")
        samples.frombytes(bytes(frame.planes[0])[: frame.samples * 2])
        if samples:
            peaks.append(max(max(samples), -min(samples)))
        seconds += frame.samples / frame.sample_rate
        if seconds >= MAX_SECONDS or source.tell() >= MAX_BYTES:
            return peaks, _stated_seconds(container, stream)
    return peaks, max(0.001, round(seconds, 3)) if seconds > 0 else None


def _frames(container: InputContainer, stream: AudioStream) -> Iterator[AudioFrame]:
    import av

    resampler = av.AudioResampler("s16", "mono", stream.codec_context.sample_rate)
    broken = 0
    for packet in container.demux(stream):
        try:
            for frame in packet.decode():
                frame.pts = None
                yield from resampler.resample(frame)
        except av.FFmpegError:
            broken += 1
        if broken > MAX_BROKEN:
            return


def _stated_seconds(container: InputContainer, stream: AudioStream) -> float | None:
    if stream.duration and stream.time_base:
        seconds = float(stream.duration * stream.time_base)
    else:
        seconds = (container.duration or 0) / 1_000_000
    # The part that was read is at least this long.
    return round(seconds, 3) if MAX_SECONDS <= seconds < 10_000_000 else None


def _drawn(peaks: Sequence[int]) -> Image.Image:
    image = Image.new("RGBA", (BARS * PITCH, HEIGHT), (*COLOR[:3], 0))
    drawing = ImageDraw.Draw(image)
    loudest = max(max(peaks), LOUDEST * MIN_LOUDNESS)
    for number in range(BARS):
        start = number * len(peaks) // BARS
        end = max(start + 1, (number + 1) * len(peaks) // BARS)
        half = max(BAR, round(max(peaks[start:end]) / loudest * HEIGHT * 0.9)) / 2
        left = number * PITCH + (PITCH - BAR) / 2
        place = (left, HEIGHT / 2 - half, left + BAR - 1, HEIGHT / 2 + half)
        drawing.rounded_rectangle(place, BAR / 2, fill=COLOR)
    return image
