"""Each recording of ComfyUI is compared by a test, or listed here with the reason why it is not."""

from __future__ import annotations

from pathlib import Path

from tests.support.comfyui.lightbox_recordings import SAMPLES

# Recordings of what Lightbox does not do.
NOT_OURS = {
    "ws_ksampler_default_no_preview": "needs a model",
    "ws_ksampler_preview_latent2rgb_flags": "needs a model",
    "ws_ksampler_preview_latent2rgb_via_extra_data": "needs a model",
    "prompt_missing_model": "needs a list of models",
    "cache_options_and_dirs": "made with options of ComfyUI's command line",
}


def test_every_recording_is_compared_or_listed_as_not_comparable() -> None:
    assert SAMPLES.is_dir(), f"The recordings of ComfyUI are missing: {SAMPLES} is not there."
    tests = "\n".join(file.read_text("utf-8") for file in Path(__file__).parent.glob("test_record*.py"))
    left = {file.stem for file in SAMPLES.glob("*.json") if f'"{file.stem}"' not in tests}
    assert left == set()
