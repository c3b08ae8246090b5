"""Files of every kind an engine saves, with the graph that made them in their metadata; and what they show."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.video.frame import VideoFrame
from av.video.stream import VideoStream
from PIL import Image, ImageCms, ImageSequence
from PIL.PngImagePlugin import PngInfo

from callsheet_lightbox.media.animation_metadata import add_to_png, add_to_webp

SECRET = "the hidden style of the house"
# Larger than a page of Ogg and than a block of the search.
GRAPH: dict[str, Any] = {
    str(number): {"class_type": "CLIPTextEncode", "inputs": {"text": f"{SECRET} {number}"}} for number in range(1000)
}
TEXT = json.dumps(GRAPH)
ORIENTATION, COMMENT = 0x0112, 0x9286
SIDEWAYS = 6


def _image(number: int = 0) -> Image.Image:
    pixels = np.random.default_rng(number).integers(0, 255, (48, 64, 3), np.uint8)
    return Image.fromarray(pixels)


def _images() -> list[Image.Image]:
    return [_image(number) for number in range(4)]


def _profile() -> bytes:
    return ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def _exif(text: str) -> Image.Exif:
    exif = Image.Exif()
    exif[ORIENTATION] = SIDEWAYS
    exif[0x0110] = text
    return exif


def png(path: Path) -> None:
    info = PngInfo()
    info.add_text("prompt", TEXT)
    info.add_text("workflow", TEXT, zip=True)
    info.add_itxt("parameters", SECRET)
    exif = _exif(SECRET)
    _image().save(path, "PNG", pnginfo=info, exif=exif, icc_profile=_profile(), dpi=(300, 300))


def animated_png(path: Path) -> None:
    first, *others = _images()
    first.save(path, "PNG", save_all=True, append_images=others, duration=80)
    add_to_png(path, {"prompt": TEXT})


def jpeg(path: Path) -> None:
    # A segment holds 64 kB at most.
    exif = _exif(TEXT[:60_000])
    options: dict[str, Any] = {"comment": SECRET, "progressive": True, "icc_profile": _profile()}
    _image().save(path, "JPEG", exif=exif, **options)


def webp(path: Path) -> None:
    _image().save(path, "WEBP", exif=_exif(TEXT), xmp=SECRET.encode(), icc_profile=_profile())


def upright_webp(path: Path) -> None:
    exif = Image.Exif()
    exif[0x0110] = TEXT
    _image().save(path, "WEBP", exif=exif)


def animated_webp(path: Path) -> None:
    first, *others = _images()
    first.save(path, "WEBP", save_all=True, append_images=others, duration=80, lossless=True)
    add_to_webp(path, {"prompt": TEXT, "workflow": SECRET})


def avif(path: Path) -> None:
    _image().save(path, "AVIF", exif=_exif(TEXT), xmp=TEXT.encode(), icc_profile=_profile())


def gif(path: Path) -> None:
    first, *others = _images()
    first.save(path, "GIF", save_all=True, append_images=others, duration=80, loop=0, comment=TEXT.encode())


def _media_file(container: str, video: str | None, sound: str | None, **options: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with av.open(str(path), "w", format=container, options=options) as file:
            for key in ("prompt", "workflow", "comment"):
                file.metadata[key] = TEXT
            streams: list[Any] = []
            if video is not None:
                stream = file.add_stream(video, rate=Fraction(10))
                assert isinstance(stream, VideoStream)
                stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
                streams.append(stream)
            if sound is not None:
                audio_stream = file.add_stream(sound, rate=48_000, layout="stereo", options={"strict": "experimental"})
                assert isinstance(audio_stream, AudioStream)
                streams.append(audio_stream)
            for number in range(10):
                for stream in streams:
                    file.mux(stream.encode(_frame(stream, number)))
            for stream in streams:
                file.mux(stream.encode(None))

    return write


def _frame(stream: Any, number: int) -> VideoFrame | AudioFrame:
    if isinstance(stream, VideoStream):
        frame = VideoFrame.from_ndarray(np.asarray(_image(number)), format="rgb24").reformat(format="yuv420p")
        frame.pts, frame.time_base = number, Fraction(1, 10)
        return frame
    noise = np.random.default_rng(number).uniform(-0.5, 0.5, (2, 4800)).astype(np.float32)
    form = stream.codec_context.format.name
    sound = AudioFrame.from_ndarray(noise, format="fltp", layout="stereo")
    sound.sample_rate, sound.pts, sound.time_base = 48_000, 4800 * number, Fraction(1, 48_000)
    [resampled] = av.AudioResampler(form, "stereo", 48_000).resample(sound)
    return resampled


def glb(path: Path) -> None:
    document = {"asset": {"version": "2.0", "extras": {"prompt": TEXT}}, "buffers": [{"byteLength": 8}]}
    text = json.dumps(document).encode()
    text += b" " * (-len(text) % 4)
    body = struct.pack("<I4s", len(text), b"JSON") + text + struct.pack("<I4s", 8, b"BIN\0") + bytes(range(8))
    path.write_bytes(struct.pack("<4sII", b"glTF", 2, 12 + len(body)) + body)


def latent(path: Path) -> None:
    tensor = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    text = json.dumps({"__metadata__": {"prompt": TEXT, "format": "pt"}, "latent_tensor": tensor}).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(range(8)))


def svg(path: Path) -> None:
    drawing = '<svg xmlns="http://www.w3.org/2000/svg"><metadata><![CDATA[{}]]></metadata><circle r="4"/></svg>'
    path.write_text(drawing.format(TEXT))


IMAGES: dict[str, Callable[[Path], None]] = {
    "png": png,
    "animated.png": animated_png,
    "jpg": jpeg,
    "webp": webp,
    "upright.webp": upright_webp,
    "animated.webp": animated_webp,
    "avif": avif,
    "gif": gif,
}
VIDEOS: dict[str, Callable[[Path], None]] = {
    "mp4": _media_file("mp4", "libx264", "aac", movflags="+faststart+use_metadata_tags"),
    "late.mp4": _media_file("mp4", "libx264", "aac"),
    "fragments.mp4": _media_file("mp4", "libx264", "aac", movflags="+frag_keyframe+empty_moov+use_metadata_tags"),
    "mov": _media_file("mov", "libx264", "aac", movflags="+use_metadata_tags"),
    "m4a": _media_file("ipod", None, "aac", movflags="+use_metadata_tags"),
    "webm": _media_file("webm", "libvpx-vp9", "libopus"),
    "live.webm": _media_file("webm", "libvpx-vp9", "libopus", live="1"),
    "mkv": _media_file("matroska", "libx264", "aac"),
    "avi": _media_file("avi", "mpeg4", "libmp3lame"),
    "flac": _media_file("flac", None, "flac"),
    "mp3": _media_file("mp3", None, "libmp3lame", write_id3v1="1"),
    "utf16.mp3": _media_file("mp3", None, "libmp3lame", id3v2_version="3"),
    "opus": _media_file("opus", None, "libopus"),
    "ogg": _media_file("ogg", None, "vorbis"),
    "wav": _media_file("wav", None, "pcm_s16le"),
}
DOCUMENTS: dict[str, Callable[[Path], None]] = {"glb": glb, "latent": latent, "svg": svg}


def shown(path: Path) -> list[Any]:
    """Every image of the file: its duration, orientation and colours."""
    with Image.open(path) as image:
        appearance = [image.getexif().get(ORIENTATION), image.info.get("icc_profile"), image.info.get("dpi")]
        frames = [
            (frame.convert("RGBA").tobytes(), frame.info.get("duration")) for frame in ImageSequence.Iterator(image)
        ]
        return [image.size, image.info.get("loop"), *appearance, *frames]


def packets(path: Path) -> list[Any]:
    """Every packet of the file, and how it is to be decoded."""
    return list(_packets(path))


def _packets(path: Path) -> Iterator[Any]:
    with av.open(str(path)) as file:
        for stream in file.streams:
            codec = stream.codec_context
            # In that of Vorbis are the comments.
            extra = None if codec.name == "vorbis" else codec.extradata
            yield stream.index, stream.type, codec.name, extra, stream.time_base
        for packet in file.demux():
            if packet.dts is not None:
                yield packet.stream_index, packet.pts, packet.dts, packet.duration, bytes(packet)
