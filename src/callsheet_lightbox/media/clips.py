"""Video files: reads their frames, and writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.audio.stream import AudioStream
from av.container import InputContainer, OutputContainer
from av.video.frame import VideoFrame
from av.video.reformatter import ColorRange, Colorspace, Interpolation
from av.video.stream import VideoStream

from callsheet_lightbox.media.frames import Frame, Frames
from callsheet_lightbox.media.sound import Sound, sound_of
from callsheet_lightbox.media.untrusted_files import opened_media

# From this height on, a video without color information uses the colors of HD television.
HD_HEIGHT = 720
BT709, BT601 = 1, 5
UNSPECIFIED = 2
# FFmpeg's quick conversion darkens an image by 1.3 of 255 each time; this one by 0.1 at most.
ROUNDING = Interpolation.BILINEAR | Interpolation.ACCURATE_RND | Interpolation.FULL_CHR_H_INT
# Maximum length of a gap in a damaged file that is filled, in seconds.
MAX_GAP = 10
AAC_RATES = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000, 64000, 88200, 96000)
OPUS_RATE = 48000
# No camera has a higher rate: the value of the container is wrong.
MAX_RATE = 1000

Step = Callable[[int, int, Frame | None], None]


@dataclass(frozen=True)
class Clip:
    """A video between nodes."""

    frames: Frames
    rate: Fraction
    sound: Sound | None
    # The source file, as long as the clip is unchanged.
    untouched: Path | None = None

    def __repr__(self) -> str:
        return f"clip({self.frames!r} at {float(self.rate):.3f} fps, {self.sound!r})"


@dataclass(frozen=True)
class Format:
    """How a kind of file is encoded."""

    container: str
    video_codec: str
    video_options: Mapping[str, str]
    sound_codec: str
    container_options: Mapping[str, str]


MP4 = Format(
    "mp4",
    "libx264",
    {"preset": "veryfast", "crf": "18"},
    "aac",
    # The index is at the front, so that a browser can play while it loads.
    {"movflags": "+faststart+use_metadata_tags"},
)


def webm(codec: str, crf: float) -> Format:
    options = {
        "vp9": ("libvpx-vp9", {"crf": str(int(crf)), "b": "0", "deadline": "good", "cpu-used": "5", "row-mt": "1"}),
        "av1": ("libsvtav1", {"crf": str(int(crf)), "preset": "10"}),
    }
    name, chosen = options[codec]
    return Format("webm", name, chosen, "libopus", {})


def open_clip(path: Path) -> Clip:
    """Opens a video. Raises PyAV's error if the file is not a video."""
    with opened_media(path) as container:
        if not container.streams.video:
            raise ValueError(f"there is no video in {path.name}")
        stream = container.streams.video[0]
        first = next(container.decode(stream), None)
        if first is None:
            raise ValueError(f"there are no frames in {path.name}")
        rate = _rate(stream)
        start, turns = float(first.time or 0), _turns(first)
        expected = stream.frames or round(_seconds(container, stream) * rate)
        width, height = (first.height, first.width) if turns % 2 else (first.width, first.height)
    frames = Frames(width, height, expected, lambda: _decoded(path, rate))
    return Clip(frames, rate, sound_of(path, start), path)


def _rate(stream: VideoStream) -> Fraction:
    rate = stream.average_rate or stream.base_rate or stream.guessed_rate
    return Fraction(rate) if rate is not None and 0 < rate <= MAX_RATE else Fraction(25)


def _seconds(container: InputContainer, stream: VideoStream) -> float:
    if stream.duration and stream.time_base:
        return float(stream.duration * stream.time_base)
    return (container.duration or 0) / av.time_base


def _turns(frame: VideoFrame) -> int:
    """Counterclockwise quarter turns: a phone held upright records rotated frames with this information."""
    return round(frame.rotation / 90) % 4


def _decoded(path: Path, rate: Fraction) -> Iterator[Frame]:
    """The images at a constant rate. If the file's rate is not constant, images are repeated or left out, so that
    sound and image stay together.
    """
    with opened_media(path) as container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        start: float | None = None
        shown, last = 0, None
        for frame in container.decode(stream):
            time = (start or 0.0) + shown / rate if frame.pts is None else frame.time
            start = time if start is None else start
            position = round((time - start) * rate)
            if position < shown:
                continue
            if last is not None:
                for _ in range(min(position - shown, round(MAX_GAP * rate))):
                    yield last
            last = _image(frame)
            shown = position + 1
            yield last


def _image(frame: VideoFrame) -> Frame:
    hd = frame.colorspace == BT709 or (frame.colorspace == UNSPECIFIED and frame.height >= HD_HEIGHT)
    source = Colorspace.ITU709 if hd else Colorspace.ITU601
    plain = frame.reformat(format="rgb24", src_colorspace=source, interpolation=ROUNDING)
    return np.ascontiguousarray(np.rot90(plain.to_ndarray(), _turns(frame)))


def write_clip(path: Path, clip: Clip, format: Format, metadata: Mapping[str, str], step: Step) -> None:
    """Encodes while the frames are made. `step` is called for every frame and may raise to stop."""
    with av.open(str(path), "w", format=format.container, options=dict(format.container_options)) as container:
        container.metadata.update(metadata)
        stream = container.add_stream(format.video_codec, rate=clip.rate, options=dict(format.video_options))
        assert isinstance(stream, VideoStream)
        sound = _SoundTrack(container, format, clip.sound) if clip.sound is not None else None
        count = 0
        for image in clip.frames:
            if count == 0:
                _shape(stream, image)
            step(count, clip.frames.expected, image)
            container.mux(stream.encode(_video_frame(image, count, clip.rate)))
            count += 1
            if sound is not None:
                sound.write_until(count / clip.rate)
        if count == 0:
            raise ValueError("there are no frames to save")
        container.mux(stream.encode(None))
        if sound is not None:
            sound.finish()
    step(count, count, None)


def _shape(stream: VideoStream, image: Frame) -> None:
    height, width = image.shape[:2]
    # The colors have half the resolution in each direction, so the size must be even.
    stream.width, stream.height = width + width % 2, height + height % 2
    stream.pix_fmt = "yuv420p"
    stream.codec_context.colorspace = BT709 if height >= HD_HEIGHT else BT601
    stream.codec_context.color_range = ColorRange.MPEG


def _video_frame(image: Frame, position: int, rate: Fraction) -> VideoFrame:
    height, width = image.shape[:2]
    if width % 2 or height % 2:
        image = np.pad(image, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
    # This uses the image's own memory: a copy costs 8 ms at 1080p, more than the conversion.
    frame = VideoFrame.from_numpy_buffer(np.ascontiguousarray(image), format="rgb24")
    target = Colorspace.ITU709 if height >= HD_HEIGHT else Colorspace.ITU601
    frame = frame.reformat(format="yuv420p", dst_colorspace=target, interpolation=ROUNDING)
    frame.pts, frame.time_base = position, 1 / rate
    return frame


class _SoundTrack:
    """Writes sound beside the images, never far ahead of them: a container that gets one after the other holds the
    first in memory.
    """

    def __init__(self, container: OutputContainer, format: Format, sound: Sound) -> None:
        rate = sound.rate if sound.rate in AAC_RATES else OPUS_RATE
        layout = sound.layout if sound.layout in ("mono", "stereo") else "stereo"
        self._container = container
        stream = container.add_stream(
            format.sound_codec, rate=OPUS_RATE if format.sound_codec == "libopus" else rate, layout=layout
        )
        assert isinstance(stream, AudioStream)
        self._stream = stream
        self._frames = iter(sound)
        self._waiting = next(self._frames, None)
        self._started = False

    def write_until(self, seconds: Fraction) -> None:
        while self._waiting is not None and (self._waiting.time or 0.0) < seconds:
            self._container.mux(self._stream.encode(self._waiting))
            self._started = True
            self._waiting = next(self._frames, None)

    def finish(self) -> None:
        """Ends the sound. Sound that is longer than the images is left out."""
        if self._started:
            self._container.mux(self._stream.encode(None))


def is_plain_mp4(path: Path) -> bool:
    """Whether its streams can be copied unchanged."""
    with opened_media(path) as container:
        codecs = [stream.codec_context.name for stream in container.streams if stream.type in ("video", "audio")]
        return "mp4" in container.format.name and set(codecs) <= {"h264", "aac", "mp3"} and codecs.count("h264") == 1


def copy_streams(source: Path, path: Path, metadata: Mapping[str, str], step: Step) -> None:
    """Copies image and sound unchanged into a new file."""
    with (
        opened_media(source) as opened,
        av.open(str(path), "w", format="mp4", options=dict(MP4.container_options)) as new,
    ):
        new.metadata.update(metadata)
        kept = {
            each.index: new.add_stream_from_template(each) for each in (*opened.streams.video, *opened.streams.audio)
        }
        total = opened.streams.video[0].frames
        count = 0
        for packet in opened.demux([opened.streams[index] for index in kept]):
            if packet.dts is None:
                continue
            if packet.stream.type == "video":
                count += 1
                step(count, total, None)
            packet.stream = kept[packet.stream.index]
            new.mux(packet)
