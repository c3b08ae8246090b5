"""Small real videos and images, and functions that read the content of a returned file."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.video.reformatter import Interpolation
from numpy.typing import NDArray
from PIL import Image

Pixels = NDArray[np.uint8]
# Without these, every conversion darkens the image a little.
EXACT = Interpolation.BILINEAR | Interpolation.ACCURATE_RND | Interpolation.FULL_CHR_H_INT
SOUND_RATE = 44100
TONE = 440


def flat(width: int, height: int, colour: tuple[int, int, int]) -> Pixels:
    return np.full((height, width, 3), colour, np.uint8)


def frame_at(position: int, width: int = 64, height: int = 48) -> Pixels:
    """Large areas of color, which survive a video codec and change from frame to frame."""
    image = flat(width, height, (40 + position % 120, 90, 160))
    image[: height // 2, : width // 2] = (200, 180 - position % 100, 30)
    return image


def make_image(path: Path, width: int = 64, height: int = 48) -> Pixels:
    image = frame_at(0, width, height)
    Image.fromarray(image).save(path)
    return image


def make_clip(
    path: Path,
    frames: int = 24,
    rate: int = 12,
    width: int = 160,
    height: int = 120,
    sound: bool = True,
    image: Callable[[int, int, int], Pixels] = frame_at,
    hole: tuple[float, float] = (0.0, 0.0),
) -> None:
    """Writes a clip. `hole`: the seconds without sound."""
    with av.open(str(path), "w") as container:
        video = container.add_stream("libx264", rate=rate, options={"preset": "ultrafast", "crf": "10"})
        video.width, video.height, video.pix_fmt = width, height, "yuv420p"
        audio = container.add_stream("aac", rate=SOUND_RATE, layout="stereo") if sound else None
        samples = 0
        for position in range(frames):
            frame = av.VideoFrame.from_ndarray(image(position, width, height), format="rgb24")
            frame = frame.reformat(format="yuv420p", interpolation=EXACT)
            frame.pts, frame.time_base = position, Fraction(1, rate)
            container.mux(video.encode(frame))
            while audio is not None and samples < (position + 1) / rate * SOUND_RATE:
                if not hole[0] <= samples / SOUND_RATE < hole[1]:
                    container.mux(audio.encode(_tone(samples)))
                samples += 1024
        container.mux(video.encode(None))
        if audio is not None:
            container.mux(audio.encode(None))


def _tone(start: int) -> av.AudioFrame:
    wave = (0.3 * np.sin(2 * np.pi * TONE * (start + np.arange(1024)) / SOUND_RATE)).astype(np.float32)
    frame = av.AudioFrame.from_ndarray(np.stack([wave, wave]), format="fltp", layout="stereo")
    frame.sample_rate, frame.pts, frame.time_base = SOUND_RATE, start, Fraction(1, SOUND_RATE)
    return frame


@dataclass(frozen=True)
class Seen:
    """A video file, decoded."""

    frames: list[Pixels]
    rate: float
    video_codec: str
    sound_codec: str | None
    sound_seconds: float
    loudness: float
    pitch: float

    @property
    def seconds(self) -> float:
        return len(self.frames) / self.rate


def decode(path: Path) -> Seen:
    with av.open(str(path)) as container:
        video = container.streams.video[0]
        decoded = (frame.reformat(format="rgb24", interpolation=EXACT) for frame in container.decode(video))
        frames = [frame.to_ndarray() for frame in decoded]
        rate, codec = float(video.average_rate or 0), video.codec_context.name
    with av.open(str(path)) as container:
        if not container.streams.audio:
            return Seen(frames, rate, codec, None, 0.0, 0.0, 0.0)
        audio = container.streams.audio[0]
        resampler = av.AudioResampler("fltp", "mono", SOUND_RATE)
        pieces = [piece.to_ndarray()[0] for frame in container.decode(audio) for piece in resampler.resample(frame)]
        wave = np.concatenate(pieces)
        middle = wave[len(wave) // 4 : 3 * len(wave) // 4]
        spectrum = np.abs(np.fft.rfft(middle * np.hanning(len(middle))))
        pitch = float(np.argmax(spectrum) * SOUND_RATE / len(middle))
        return Seen(
            frames, rate, codec, audio.codec_context.name, len(wave) / SOUND_RATE, float(np.abs(middle).max()), pitch
        )


def farthest(one: Pixels, other: Pixels) -> float:
    """The maximum difference of nine in ten values of the worst channel. The other values are on edges, which a
    codec blurs.
    """
    assert one.shape == other.shape
    return float(np.percentile(np.abs(one.astype(int) - other.astype(int)), 90, axis=(0, 1)).max())


def blank_png(side: int) -> bytes:
    """A black square, written row by row: a decoded image would take hundreds of megabytes."""
    rows = zlib.compressobj()
    packed = b"".join(rows.compress(bytes(1 + side)) for _ in range(side)) + rows.flush()
    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", packed), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )
