"""Small real sounds in every common format, and functions that hear what a returned file contains."""

from __future__ import annotations

import io
from dataclasses import dataclass
from fractions import Fraction

import av
import numpy as np
from av.audio.stream import AudioStream

RATE = 44_100
TONE = 440.0
# By extension: the container, the codec and the media type.
FORMATS = {
    "wav": ("wav", "pcm_s16le", "audio/wav"),
    "mp3": ("mp3", "libmp3lame", "audio/mpeg"),
    "flac": ("flac", "flac", "audio/flac"),
    "ogg": ("ogg", "vorbis", "audio/ogg"),
    "opus": ("ogg", "libopus", "audio/ogg"),
    "m4a": ("ipod", "aac", "audio/mp4"),
    "aac": ("adts", "aac", "audio/aac"),
    "webm": ("webm", "libopus", "audio/webm"),
}


def sound(extension: str = "wav", seconds: float = 1.0, pitch: float = TONE, loudness: float = 0.5) -> bytes:
    """A tone, silent in its second half."""
    container_format, codec, _ = FORMATS[extension]
    rate = 48_000 if codec == "libopus" else RATE
    target = io.BytesIO()
    with av.open(target, "w", format=container_format) as container:
        # The only encoder of Vorbis in PyAV's FFmpeg calls itself experimental.
        stream = container.add_stream(codec, rate=rate, layout="stereo", options={"strict": "experimental"})
        assert isinstance(stream, AudioStream)
        resampler = av.AudioResampler(stream.codec_context.format.name, "stereo", rate)
        count = round(seconds * rate)
        for start in range(0, count, 1024):
            moments = np.arange(start, min(start + 1024, count))
            wave = loudness * np.sin(2 * np.pi * pitch * moments / rate) * (moments < count / 2)
            piece = wave.astype(np.float32)
            frame = av.AudioFrame.from_ndarray(np.stack([piece, piece]), format="fltp", layout="stereo")
            frame.sample_rate, frame.pts, frame.time_base = rate, start, Fraction(1, rate)
            for each in resampler.resample(frame):
                container.mux(stream.encode(each))
        container.mux(stream.encode(None))
    return target.getvalue()


@dataclass(frozen=True)
class Sound:
    """A sound file, decoded."""

    codec: str
    seconds: float
    pitch: float
    loudness: float


def analyze(content: bytes) -> Sound:
    with av.open(io.BytesIO(content)) as container:
        stream = container.streams.audio[0]
        resampler = av.AudioResampler("fltp", "mono", RATE)
        pieces = [piece.to_ndarray()[0] for frame in container.decode(stream) for piece in resampler.resample(frame)]
        wave = np.concatenate(pieces)
        part = wave[: len(wave) // 2]
        spectrum = np.abs(np.fft.rfft(part * np.hanning(len(part))))
        pitch = float(np.argmax(spectrum) * RATE / len(part))
        return Sound(stream.codec_context.name, len(wave) / RATE, pitch, float(np.abs(part).max()))
