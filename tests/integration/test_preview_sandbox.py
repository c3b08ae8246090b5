"""Previews of real media, and files that are made to hurt: each costs itself its preview, and nothing else."""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import av
import numpy as np
import pytest
from PIL import Image

from callsheet.media.previews import program, sandbox, waveform
from callsheet.media.previews.program import CLIP, LARGE, LARGE_SIDE, SMALL, SMALL_SIDE, NoPreview
from callsheet.media.previews.sandbox import MAX_BYTES, ClipSize, Effort, OutOfTime
from tests.support.media.clips import Pixels, decode, flat, frame_at, make_clip
from tests.support.media.previews import (
    clip,
    endless_jpeg,
    image,
    million_frames,
    of_size,
    opened,
    patched,
    previews_of,
    square_png,
    video_tracks,
    with_tracks,
)
from tests.support.media.sounds import FORMATS, sound


def black_then_frames(position: int, width: int, height: int) -> Pixels:
    return flat(width, height, (0, 0, 0)) if position < 6 else frame_at(position, width, height)


async def test_an_image_has_thumbnails_in_two_sizes() -> None:
    made = await previews_of(image(3000, 1500, "JPEG"), "image")
    assert (opened(made.files[SMALL]).size, opened(made.files[LARGE]).size) == ((384, 192), (1280, 640))
    assert (made.width, made.height, made.duration_seconds) == (3000, 1500, None)
    assert CLIP not in made.files


async def test_a_rotated_photograph_is_upright_and_its_preview_has_no_metadata() -> None:
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "where I live"
    made = await previews_of(image(800, 400, "JPEG", exif=exif), "image")
    assert (made.width, made.height) == (400, 800)
    assert opened(made.files[LARGE]).size == (400, 800)
    assert b"where I live" not in made.files[LARGE] + made.files[SMALL]


async def test_transparent_pixels_stay_transparent() -> None:
    target = io.BytesIO()
    Image.new("RGBA", (50, 50), (255, 0, 0, 0)).save(target, "PNG")
    made = await previews_of(target.getvalue(), "image")
    assert opened(made.files[SMALL]).convert("RGBA").getpixel((5, 5))[3] == 0  # type: ignore[index]


async def test_a_video_has_a_poster_and_a_silent_clip_of_its_first_seconds(tmp_path: Path) -> None:
    content = clip(tmp_path / "source.mp4", 24 * 5, rate=24, width=800, height=600)
    made = await previews_of(content)
    (tmp_path / CLIP).write_bytes(made.files[CLIP])
    seen = decode(tmp_path / CLIP)
    assert (seen.video_codec, seen.sound_codec, len(seen.frames)) == ("h264", None, 45)
    assert seen.frames[0].shape == (360, 480, 3)
    # Its index comes first, so that it plays while it loads.
    assert made.files[CLIP].index(b"moov") < made.files[CLIP].index(b"mdat")
    assert opened(made.files[LARGE]).size == (800, 600)
    assert max(opened(made.files[SMALL]).size) == SMALL_SIDE
    assert (made.width, made.height, made.duration_seconds) == (800, 600, 5.0)
    # Colours survive: the upper left of the frame is yellow.
    assert seen.frames[0][10, 10, 0] > 150
    assert seen.frames[0][10, 10, 2] < 90


async def test_a_poster_skips_the_black_start_of_a_video(tmp_path: Path) -> None:
    made = await previews_of(clip(tmp_path / "a.mp4", 24, image=black_then_frames))
    assert opened(made.files[LARGE]).convert("RGB").getpixel((5, 5))[0] > 100  # type: ignore[index]


async def test_a_video_that_is_black_has_a_black_poster(tmp_path: Path) -> None:
    black = clip(tmp_path / "a.mp4", 5, image=lambda _, width, height: flat(width, height, (0, 0, 0)))
    assert opened((await previews_of(black)).files[LARGE]).convert("L").getextrema()[1] < 30  # type: ignore[operator]


async def test_a_video_that_was_turned_is_upright(tmp_path: Path) -> None:
    def turn(content: bytearray) -> None:
        # The matrix of a track: 36 bytes, 44 behind the name of its header.
        matrix = content.index(b"tkhd") + 4 + 40
        values = (0, 0x10000, 0, -0x10000, 0, 0, 0, 0, 0x40000000)
        content[matrix : matrix + 36] = b"".join(value.to_bytes(4, "big", signed=True) for value in values)

    made = await previews_of(patched(clip(tmp_path / "a.mp4", 5, width=160, height=120), turn))
    assert (made.width, made.height) == (120, 160)
    # Yellow was in the upper left; a quarter turn to the right puts it into the upper right.
    poster = opened(made.files[LARGE]).convert("RGB")
    assert poster.size == (120, 160)
    assert poster.getpixel((110, 10))[0] > 150  # type: ignore[index]


THOROUGH = [pytest.param(name, marks=pytest.mark.thorough) for name in ("a.mkv", "a.avi", "a.ts", "a.mov")]


@pytest.mark.parametrize("name", ["a.webm", *THOROUGH])
async def test_each_common_container_is_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    codec = "libvpx-vp9" if name == "a.webm" else "libx264"
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=10)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for position in range(5):
            frame = av.VideoFrame.from_ndarray(frame_at(position), format="rgb24").reformat(format="yuv420p")
            frame.pts, frame.time_base = position, Fraction(1, 10)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    made = await previews_of(path.read_bytes())
    assert (made.width, made.height) == (64, 48)
    assert len(made.files) == 3


async def test_an_extreme_shape_has_previews_of_even_sides(tmp_path: Path) -> None:
    made = await previews_of(clip(tmp_path / "a.mp4", 3, width=1600, height=2))
    (tmp_path / CLIP).write_bytes(made.files[CLIP])
    assert decode(tmp_path / CLIP).frames[0].shape == (2, 480, 3)


@pytest.mark.thorough
async def test_only_the_start_of_a_long_video_is_read(tmp_path: Path) -> None:
    """Each frame is noise of 60 kB, so that it has 30 MB."""
    noise = np.random.default_rng(1)
    path = tmp_path / "long.mp4"
    image = noise.integers(0, 255, (4, 240, 320, 3), dtype=np.uint8)
    make_clip(path, 500, 10, 320, 240, sound=False, image=lambda position, *_: image[position % 4])
    content, read = path.read_bytes(), 0

    async def counting(start: int, length: int) -> bytes:
        nonlocal read
        read += length
        return content[start : start + length]

    made = await sandbox.make_previews("video", len(content), counting)
    assert made.duration_seconds == 50.0
    assert read < len(content) / 2
    assert all(len(each) <= MAX_BYTES[name] for name, each in made.files.items())


@pytest.mark.thorough
async def test_a_truncated_video_has_previews_of_its_readable_part(tmp_path: Path) -> None:
    path = tmp_path / "a.ts"
    make_clip(path, 48, 12, sound=False)
    made = await previews_of(path.read_bytes()[: path.stat().st_size // 2])
    assert opened(made.files[LARGE]).size == (160, 120)


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("kind", "content", "reason"),
    [
        ("image", b"", "not a readable image"),
        ("image", b"<html><script>alert(1)</script></html>", "not a readable image"),
        ("image", b'<svg xmlns="http://www.w3.org/2000/svg"/>', "not a readable image"),
        ("image", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not a readable image"),
        ("image", image(300, 300)[:200], "cannot be read"),
        ("image", square_png(20_000, 1, 0, bytes(2500)), "pixels"),
        ("video", b"", "not a readable video"),
        ("video", b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n", "not a readable video"),
        ("video", b"ffconcat version 1.0\nfile /etc/passwd\n", "not a readable video"),
        (
            "video",
            b"\x00\x00\x00\x20ftypisom\x00\x00\x02\x00isomiso2avc1mp41" + bytes(range(256)) * 8,
            "cannot be read",
        ),
        ("video", image(20, 20), "not a readable video"),
        ("video", patched(video_tracks(1), of_size(30_000, 30_000)), "pixels|no readable frame"),
        ("audio", b"", "not a readable sound"),
        ("audio", b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n", "not a readable sound"),
        ("audio", image(20, 20), "not a readable sound"),
        ("audio", b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(200), "cannot be read|no readable sound"),
        ("audio", b"ID3\x04\x00\x00\x7f\x7f\x7f\x7f" + bytes(4000), "cannot be read|no readable sound"),
        ("audio", video_tracks(1), "no sound"),
    ],
    ids=[
        *("nothing", "html", "svg", "eps", "truncated", "bomb"),
        *("no bytes", "playlist", "list of files", "broken", "image", "huge"),
        *("no sound bytes", "sound playlist", "image as sound", "broken wave", "endless tag", "video as sound"),
    ],
)
async def test_an_unreadable_file_is_refused_with_the_reason(kind: sandbox.Kind, content: bytes, reason: str) -> None:
    with pytest.raises(NoPreview, match=reason):
        await previews_of(content, kind)


async def test_a_file_of_thousands_of_tracks_costs_no_more_than_another(tmp_path: Path) -> None:
    content = with_tracks(clip(tmp_path / "a.mp4", 5, sound=False), 5000)
    with pytest.raises(NoPreview, match=r"streams|cannot be read"):
        await previews_of(content)


@pytest.mark.thorough
@pytest.mark.parametrize("extension", FORMATS)
async def test_a_sound_has_its_waveform_in_two_sizes_and_its_duration(extension: str) -> None:
    made = await previews_of(sound(extension, seconds=3.0), "audio")
    assert (made.width, made.height) == (None, None)
    assert made.duration_seconds == pytest.approx(3.0, abs=0.1)
    assert made.files.keys() == {SMALL, LARGE}
    assert (opened(made.files[SMALL]).size, opened(made.files[LARGE]).size) == ((384, 128), (1200, 400))
    drawn = np.asarray(opened(made.files[LARGE]).convert("RGBA"))[:, :, 3] > 0
    heights = drawn.sum(axis=0).reshape(120, 10).max(axis=1)
    # The second half of the sound is silent.
    assert heights[5:55].min() > 300
    assert heights[65:].max() < 30


async def test_a_sound_with_a_wrong_duration_in_its_header_gets_the_duration_of_its_samples() -> None:
    content = bytearray(sound("wav", seconds=2.0))
    at = content.index(b"data") + 4
    content[at : at + 4] = struct.pack("<I", 44_100 * 4 * 600)
    assert (await previews_of(bytes(content), "audio")).duration_seconds == pytest.approx(2.0, abs=0.1)


@pytest.mark.thorough
async def test_only_the_start_of_a_long_sound_is_drawn() -> None:
    """Silence as FLAC is small, and takes long to decode."""
    made = await previews_of(sound("flac", seconds=1300.0, loudness=0.0), "audio")
    assert made.duration_seconds == pytest.approx(1300.0, abs=0.1)


async def test_sound_alone_has_no_preview_as_a_video(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=44_100, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        frame.sample_rate, frame.pts = 44_100, 0
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    with pytest.raises(NoPreview, match="no video stream"):
        await previews_of(path.read_bytes())


@pytest.mark.thorough
async def test_the_largest_accepted_image_fits_into_the_memory_of_a_decoder() -> None:
    made = await previews_of(square_png(7000, 8, 6, bytes((255, 0, 0, 9)) * 7000), "image")
    assert opened(made.files[LARGE]).size == (LARGE_SIDE, LARGE_SIDE)


async def test_only_one_of_a_million_frames_is_decoded() -> None:
    assert opened((await previews_of(million_frames(), "image")).files[SMALL]).size == (8, 8)


@pytest.mark.thorough
async def test_a_preview_that_needs_too_much_processor_time_is_stopped() -> None:
    with pytest.raises(NoPreview, match="more than 1 second of processor time"):
        await previews_of(endless_jpeg(), "image", effort=Effort(seconds=300, cpu_seconds=1))


async def test_a_busy_machine_is_distinguished_from_an_unreadable_file() -> None:
    with pytest.raises(OutOfTime, match="more than 0 seconds"):
        await previews_of(image(300, 300), "image", effort=Effort(seconds=0))


async def test_a_decoder_that_closes_its_output_and_does_not_exit_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "program.py").write_text("import os, time; os.close(0); os.close(1); time.sleep(600)")
    monkeypatch.setattr(program, "__file__", str(tmp_path / "program.py"))
    monkeypatch.setattr(sandbox, "ENDING_SECONDS", 0.1)
    with pytest.raises(NoPreview, match="crashed"):
        await previews_of(b"x")


async def test_a_decoder_that_reads_again_and_again_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "MAX_READ_BYTES", 100)
    with pytest.raises(NoPreview, match="more than 100 bytes"):
        await previews_of(image(300, 300), "image")


PROGRAMS = {
    "it crashes": ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "crashed"),
    "it says nothing": ("pass", "crashed"),
    "it talks nonsense": ("import sys; sys.stdout.write('?' * 100_000)", "too large|crashed"),
    "it sends a file of another name": (
        "import sys, struct; sys.stdout.buffer.write(struct.pack('>cI', b'F', 9) + b'../../x\\0y')",
        "too large",
    ),
    "it sends too much": (
        "import sys, struct; sys.stdout.buffer.write(struct.pack('>cI', b'F', 2**31) + b'small.webp\\0')",
        "too large",
    ),
    "it sends nothing and says that it is done": (
        'import sys, struct; t = b\'{"width": 1, "height": 1}\'; '
        "sys.stdout.buffer.write(struct.pack('>cI', b'I', len(t)) + t)",
        "crashed",
    ),
}


@pytest.mark.few_forms
@pytest.mark.parametrize("name", PROGRAMS)
async def test_wrong_output_of_a_decoder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    text, reason = PROGRAMS[name]
    (tmp_path / "program.py").write_text(text)
    monkeypatch.setattr(program, "__file__", str(tmp_path / "program.py"))
    with pytest.raises(NoPreview, match=reason):
        await previews_of(b"x" * 1000)


@pytest.mark.parametrize("module", [program, waveform], ids=["program", "waveform"])
def test_a_decoder_imports_nothing_of_callsheet(module: ModuleType) -> None:
    """Each file gets a process of its own, which must start fast and know nothing that a broken decoder could use."""
    code = (
        "import runpy, sys; runpy.run_path(sys.argv[1]); print([name for name in sys.modules if 'callsheet' in name])"
    )
    command = [sys.executable, "-I", "-B", "-c", code, str(module.__file__)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"


async def test_a_decoder_gets_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "import os, sys, struct; t = repr(dict(os.environ)).encode(); "
    text += "sys.stdout.buffer.write(struct.pack('>cI', b'N', len(t)) + t)"
    (tmp_path / "program.py").write_text(text)
    monkeypatch.setattr(program, "__file__", str(tmp_path / "program.py"))
    monkeypatch.setenv("CALLSHEET_SECRET", "told-to-nobody")
    with pytest.raises(NoPreview) as refused:
        await previews_of(b"")
    assert "told-to-nobody" not in str(refused.value)
    assert os.environ["PATH"] not in str(refused.value)


@pytest.mark.thorough
async def test_a_clip_can_be_larger_and_longer(tmp_path: Path) -> None:
    content = clip(tmp_path / "a.mp4", 60, rate=12, width=1000, height=500, sound=False)
    made = await previews_of(content, clip=ClipSize(720, 5))
    (tmp_path / CLIP).write_bytes(made.files[CLIP])
    seen = decode(tmp_path / CLIP)
    assert seen.frames[0].shape == (360, 720, 3)
    assert len(seen.frames) == 60
