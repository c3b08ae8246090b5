"""The demo's sample clip, and the check that the result is what the effect promises."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.audio.stream import AudioStream
from av.video.reformatter import Interpolation
from av.video.stream import VideoStream

WIDTH, HEIGHT, RATE, SECONDS = 640, 360, 24, 3
SOUND_RATE = 44_100
SAMPLES = 1024
# A falling fifth, so that one can hear that the sound is the original one.
TONES = (660.0, 440.0)
# Two encodings are between a pixel and its negative; on flat colors they cause an error of one or two steps of 255.
MAX_PIXEL_ERROR = 4.0
# Codecs pad the end by about one frame of sound.
MAX_SECONDS_OFF = 0.1

Frame = np.ndarray[Any, np.dtype[np.uint8]]
Layer = np.ndarray[Any, np.dtype[np.float32]]

DOWN, ACROSS = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float32)
# The row where the lake begins, and the row that no mountain exceeds.
SHORE, PEAKS = 236, 100
SUN_X = 440.0
# From far to near: height, speed and color of each.
MOUNTAINS = ((120, 5.0, (132, 118, 158)), (84, 13.0, (88, 82, 124)), (46, 30.0, (44, 48, 80)))


def make_clip(path: Path) -> None:
    """Writes three seconds with sound, completely or not at all."""
    part = path.with_suffix(".part")
    try:
        with av.open(str(part), "w", format="mp4", options={"movflags": "faststart"}) as container:
            video = container.add_stream("libx264", rate=RATE, options={"preset": "veryfast", "crf": "16"})
            assert isinstance(video, VideoStream)
            video.width, video.height, video.pix_fmt = WIDTH, HEIGHT, "yuv420p"
            sound = container.add_stream("aac", rate=SOUND_RATE, layout="stereo")
            assert isinstance(sound, AudioStream)
            samples = 0
            for position in range(RATE * SECONDS):
                frame = av.VideoFrame.from_ndarray(image(position / RATE), format="rgb24")
                frame.pts, frame.time_base = position, Fraction(1, RATE)
                container.mux(video.encode(frame))
                while samples < (position + 1) / RATE * SOUND_RATE:
                    container.mux(sound.encode(_tone(samples)))
                    samples += SAMPLES
            container.mux(video.encode(None))
            container.mux(sound.encode(None))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def image(seconds: float) -> Frame:
    """A balloon that drifts over a lake at sunset."""
    scene = np.empty((HEIGHT, WIDTH, 3), np.float32)
    scene[:SHORE] = _sky(seconds)
    for depth, (height, speed, colour) in enumerate(MOUNTAINS):
        ridge = SHORE - height * _ridge(ACROSS[0] + speed * seconds, depth)
        _cover(scene[PEAKS:SHORE], np.clip(DOWN[PEAKS:SHORE] - ridge, 0, 1), colour)
    scene[SHORE:] = _lake(scene, seconds)
    _draw_balloon(scene, seconds)
    return np.clip(scene, 0, 255).astype(np.uint8)


def _cover(scene: Layer, cover: Layer, colour: Layer | tuple[int, int, int]) -> None:
    scene += cover[..., None] * (np.asarray(colour, np.float32) - scene)


def _ridge(position: Layer, depth: int) -> Layer:
    """A value from 0 to 1 that does not repeat within the clip."""
    waves = [np.sin(position * 0.0063 * 1.9**n + 1.7 * n * n + 2 * depth) / 1.9**n for n in range(6)]
    return np.asarray(0.5 + sum(waves) / 4, np.float32)


def _sky(seconds: float) -> Layer:
    down, across = DOWN[:SHORE], ACROSS[:SHORE]
    height = (down / SHORE)[..., None]
    scene: Layer = np.array((58, 74, 140), np.float32) * (1 - height) + np.array((255, 176, 120), np.float32) * height
    distance = np.hypot(across - SUN_X, down - (150 + 5 * np.float32(seconds)))
    scene += np.exp(distance / -60)[..., None] * np.array((90, 60, 10), np.float32)
    _cover(scene, np.clip(26 - distance, 0, 1), (255, 240, 190))
    return scene


def _lake(scene: Layer, seconds: float) -> Layer:
    """The reflection of the scene above, upside down and darker, moved by slow waves; and a path of light below the
    sun.
    """
    depth, across = DOWN[SHORE:] - SHORE, ACROSS[SHORE:]
    time = np.float32(seconds)
    waves = np.sin(depth * 0.55 - time * 5 + np.sin(across * 0.02)) * depth * 0.05
    rows = np.clip(SHORE - 1 - depth * 1.4 + waves, 0, SHORE - 1).astype(int)
    water = scene[rows, across.astype(int)] * np.array((0.62, 0.68, 0.82), np.float32)
    light = np.exp(-np.abs(across - SUN_X) / (12 + depth * 0.5)) * (0.5 + 0.5 * np.sin(depth * 0.8 - time * 6))
    return np.asarray(water + light[..., None] * np.array((110, 80, 40), np.float32), np.float32)


def _draw_balloon(scene: Layer, seconds: float) -> None:
    x, y = 150 + 70 * seconds, 118 - 12 * seconds + 4 * math.sin(seconds * 2)
    part = np.s_[max(0, int(y) - 50) : int(y) + 84, int(x) - 50 : int(x) + 50]
    side, fall = (ACROSS[part] - np.float32(x)) / 44, DOWN[part] - np.float32(y)
    up = fall / np.where(fall < 0, 44, 58).astype(np.float32)
    stripe = np.sin(np.arcsin(np.clip(side / np.sqrt(np.clip(1 - up**2, 0.02, 1)), -1, 1)) * 5) > 0
    colours = np.where(stripe[..., None], np.array((232, 72, 52), np.float32), np.array((250, 206, 92), np.float32))
    shade = (0.78 + 0.3 * np.clip(side, -1, 1))[..., None]
    _cover(scene[part], np.clip((1 - np.hypot(side, up)) * 30, 0, 1), colours * shade)
    from_middle = np.abs(side * 44)
    ropes = (np.abs(from_middle - 8 - (65 - fall) * 0.35) < 0.8) & (np.abs(fall - 56) < 10)
    basket = (from_middle < 8) & (np.abs(fall - 72) < 7)
    _cover(scene[part], (basket | ropes).astype(np.float32), (70, 45, 35))


def _tone(start: int) -> av.AudioFrame:
    moments = (start + np.arange(SAMPLES)) / SOUND_RATE
    pitch = np.where(moments % 1 < 0.5, TONES[0], TONES[1])
    # The sound fades with each note, so that it does not click where the pitch changes.
    loudness = 0.25 * np.exp(-6 * (moments % 0.5))
    wave = (loudness * np.sin(2 * np.pi * pitch * (moments % 0.5))).astype(np.float32)
    frame = av.AudioFrame.from_ndarray(np.stack([wave, wave]), format="fltp", layout="stereo")
    frame.sample_rate, frame.pts, frame.time_base = SOUND_RATE, start, Fraction(1, SOUND_RATE)
    return frame


@dataclass(frozen=True, slots=True)
class ClipVerdict:
    """The result of decoding both clips."""

    frames: int
    seconds: float
    sound_seconds: float
    sound_level: float
    pixel_error: float
    problems: tuple[str, ...]


def compare_negative(original: Path, result: Path) -> ClipVerdict:
    """Whether the result plays and is the negative of the original, frame by frame, with its sound."""
    pairs, errors = 0, 0.0
    missing = object()
    given, got = _frames(original), _frames(result)
    problems: list[str] = []
    while True:
        one, other = next(given, missing), next(got, missing)
        if one is missing and other is missing:
            break
        if not (isinstance(one, np.ndarray) and isinstance(other, np.ndarray)) or one.shape != other.shape:
            problems.append(f"frame {pairs} has no partner of its size")
            break
        errors += float(np.abs(255 - one.astype(np.int16) - other).mean())
        pairs += 1
    error = errors / pairs if pairs else 255.0
    before, after = _sound(original), _sound(result)
    if error > MAX_PIXEL_ERROR:
        problems.append(f"pixels are {error:.1f} of 255 off the negative")
    if abs(before[0] - after[0]) > MAX_SECONDS_OFF:
        problems.append(f"it had {before[0]:.2f} s of sound and has {after[0]:.2f} s")
    if before[1] and not 0.7 < after[1] / before[1] < 1.4:
        problems.append("its sound is not as loud as it was")
    seconds, wanted = _seconds(result), _seconds(original)
    if abs(seconds - wanted) > MAX_SECONDS_OFF:
        problems.append(f"it lasts {seconds:.2f} s instead of {wanted:.2f} s")
    return ClipVerdict(
        pairs, round(seconds, 3), round(after[0], 3), round(after[1], 4), round(error, 2), tuple(problems)
    )


def _frames(path: Path) -> Iterator[Frame]:
    with av.open(str(path)) as container:
        for frame in container.decode(video=0):
            exact = frame.reformat(format="rgb24", interpolation=Interpolation.BICUBIC)
            yield np.asarray(exact.to_ndarray(), np.uint8)


def _seconds(path: Path) -> float:
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        return float((stream.duration or 0) * (stream.time_base or 0))


def _sound(path: Path) -> tuple[float, float]:
    """Seconds and loudness (root mean square)."""
    samples, power = 0, 0.0
    with av.open(str(path)) as container:
        if not container.streams.audio:
            return 0.0, 0.0
        resampler = av.AudioResampler("fltp", "mono", SOUND_RATE)
        for frame in container.decode(audio=0):
            for piece in resampler.resample(frame):
                wave = piece.to_ndarray()
                samples += wave.shape[-1]
                power += float(np.square(wave).sum())
    return samples / SOUND_RATE, math.sqrt(power / samples) if samples else 0.0
