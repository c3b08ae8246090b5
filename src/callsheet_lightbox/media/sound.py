"""Sound between nodes: like images, it is made while it is saved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import av
import av.filter
import numpy as np
from av.audio.codeccontext import AudioCodecContext
from av.audio.frame import AudioFrame

from callsheet_lightbox.media.untrusted_files import opened_media

# FFmpeg's atempo keeps the pitch well within this range; beyond it, several filters are chained.
TEMPO_RANGE = (0.5, 2.0)
SILENCE_SAMPLES = 1024
# A gap in the sound of a file, in seconds, that is filled with silence so that the rest stays with the image. Shorter
# gaps come from encoders; longer ones are damage.
MIN_GAP, MAX_GAP = 0.05, 600.0
# A WAV file often states only the number of its channels.
USUAL_LAYOUTS = {1: "mono", 2: "stereo", 4: "quad", 6: "5.1", 8: "7.1"}


@dataclass(frozen=True)
class Sound:
    rate: int
    layout: str
    source: Callable[[], Iterator[AudioFrame]]
    # FFmpeg filters, as name and arguments.
    filters: tuple[tuple[str, str], ...] = ()
    # The delay of the sound after the image, in seconds.
    delay: float = 0.0

    def at_speed(self, speed: float) -> Sound:
        """The sound faster or slower at the same pitch."""
        factors: list[float] = []
        while speed < TEMPO_RANGE[0] or speed > TEMPO_RANGE[1]:
            factors.append(TEMPO_RANGE[0] if speed < 1 else TEMPO_RANGE[1])
            speed /= factors[-1]
        tempos = tuple(("atempo", f"{factor:.6f}") for factor in (*factors, speed) if factor != 1)
        slowdown = 1 / (speed * float(np.prod(factors)))
        return replace(self, filters=(*self.filters, *tempos), delay=self.delay * slowdown)

    def __iter__(self) -> Iterator[AudioFrame]:
        """Successive pieces, each with the number of its first sample."""
        frames = self._filtered() if self.filters else self.source()
        position = round(self.delay * self.rate)
        for frame in frames:
            frame.pts, frame.time_base = position, Fraction(1, frame.sample_rate)
            position += frame.samples
            yield frame

    def _filtered(self) -> Iterator[AudioFrame]:
        graph = None
        for frame in self.source():
            if graph is None:
                graph = self._graph(frame)
            graph.push(frame)
            yield from _pulled(graph)
        if graph is not None:
            graph.push(None)
            yield from _pulled(graph)

    def _graph(self, frame: AudioFrame) -> av.filter.Graph:
        graph = av.filter.Graph()
        start = graph.add_abuffer(
            sample_rate=frame.sample_rate,
            format=frame.format.name,
            layout=frame.layout.name,
            time_base=Fraction(1, frame.sample_rate),
        )
        nodes = [start, *(graph.add(name, arguments) for name, arguments in self.filters), graph.add("abuffersink")]
        graph.link_nodes(*nodes).configure()
        return graph

    def __repr__(self) -> str:
        return f"sound({self.rate} Hz, {self.layout})"


def _pulled(graph: av.filter.Graph) -> Iterator[AudioFrame]:
    while True:
        try:
            frame = graph.pull()
        except (BlockingIOError, av.EOFError):
            return
        assert isinstance(frame, AudioFrame)
        yield frame


def sound_of(path: Path, image_start: float = 0.0) -> Sound | None:
    """The first sound of a file, or None if there is none."""
    with opened_media(path) as container:
        if not container.streams.audio:
            return None
        stream = container.streams.audio[0]
        context = stream.codec_context
        starts = float((stream.start_time or 0) * (stream.time_base or 0))
        if not context.sample_rate:
            return None
        return Sound(
            context.sample_rate, _layout(context), lambda: _decoded(path), delay=max(0.0, starts - image_start)
        )


def _layout(context: AudioCodecContext) -> str:
    name = context.layout.name
    return USUAL_LAYOUTS.get(context.channels, name) if name.endswith(" channels") else name


def _decoded(path: Path) -> Iterator[AudioFrame]:
    with opened_media(path) as container:
        # A stream may change its layout; an encoder may not.
        context = container.streams.audio[0].codec_context
        rate, layout, channels = context.sample_rate, _layout(context), context.channels
        resampler = av.AudioResampler("fltp", layout, rate)
        start: float | None = None
        position = 0
        for frame in container.decode(audio=0):
            if frame.time is not None:
                start = frame.time if start is None else start
                gap = frame.time - start - position / rate
                if MIN_GAP < gap < MAX_GAP:
                    position += round(gap * rate)
                    yield from _silence(round(gap * rate), rate, layout, channels)
            frame.pts = None
            for piece in resampler.resample(frame):
                position += piece.samples
                yield piece
        yield from resampler.resample(None)


def silence(seconds: float, rate: int, channels: int) -> Sound:
    layout = "mono" if channels == 1 else "stereo"
    return Sound(rate, layout, lambda: _silence(round(seconds * rate), rate, layout, channels))


def _silence(left: int, rate: int, layout: str, channels: int) -> Iterator[AudioFrame]:
    while left > 0:
        samples = min(left, SILENCE_SAMPLES)
        frame = AudioFrame.from_ndarray(np.zeros((channels, samples), np.float32), format="fltp", layout=layout)
        frame.sample_rate = rate
        yield frame
        left -= samples
