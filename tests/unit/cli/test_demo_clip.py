"""The check of the demo's result: only the complete negative with its sound passes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from callsheet_demo.clip import compare_negative, make_clip
from tests.support.media import clips


def negative(position: int, width: int, height: int) -> np.ndarray:
    return 255 - clips.frame_at(position, width, height)


@pytest.fixture
def original(tmp_path: Path) -> Path:
    clips.make_clip(tmp_path / "original.mp4")
    return tmp_path / "original.mp4"


@pytest.mark.thorough
def test_the_sample_clip_has_images_and_sound_and_nothing_lies_beside_it(tmp_path: Path) -> None:
    make_clip(tmp_path / "sample.mp4")
    seen = clips.decode(tmp_path / "sample.mp4")
    assert (len(seen.frames), seen.rate, seen.video_codec, seen.sound_codec) == (72, 24, "h264", "aac")
    assert seen.sound_seconds == pytest.approx(3, abs=0.1)
    assert seen.loudness > 0.1
    assert [path.name for path in tmp_path.iterdir()] == ["sample.mp4"]


def test_the_negative_passes(tmp_path: Path, original: Path) -> None:
    clips.make_clip(tmp_path / "result.mp4", image=negative)
    verdict = compare_negative(original, tmp_path / "result.mp4")
    assert verdict.problems == ()
    assert verdict.frames == 24
    assert verdict.pixel_error < 3


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"image": clips.frame_at}, "off the negative"),
        ({"image": negative, "frames": 23}, "no partner"),
        ({"image": negative, "sound": False}, "of sound"),
        ({"image": negative, "width": 144}, "no partner of its size"),
        ({"image": negative, "rate": 24}, "it lasts"),
    ],
    ids=["the same images", "a frame less", "silent", "smaller", "twice as fast"],
)
def test_every_other_difference_is_named(
    tmp_path: Path, original: Path, changes: dict[str, object], problem: str
) -> None:
    clips.make_clip(tmp_path / "result.mp4", **changes)  # type: ignore[arg-type]
    assert problem in "; ".join(compare_negative(original, tmp_path / "result.mp4").problems)
