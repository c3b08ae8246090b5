"""What a real ComfyUI 0.7.0 was recorded to return, and whether a response has that shape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).parents[2] / "samples" / "comfyui"
# Compared exactly, because clients decide by these values.
WORDS = ("type", "status_str", "completed", "class_type", "exception_type", "node_type", "state", "mediaType")


def sample(name: str) -> Any:
    file = SAMPLES / f"{name}.json"
    assert file.exists(), f"The recordings of ComfyUI are missing: {file} is not there."
    return json.loads(file.read_text("utf-8"))


def differences(recorded: Any, given: Any, at: str = "") -> list[str]:
    """The differences of keys, types and values that clients decide by; empty if there are none."""
    if isinstance(recorded, dict) and isinstance(given, dict):
        found = [f"{at}: keys {sorted(recorded)} but {sorted(given)}"] if recorded.keys() != given.keys() else []
        for key in recorded.keys() & given.keys():
            here = f"{at}.{key}"
            found += differences(recorded[key], given[key], here)
            if key in WORDS and isinstance(recorded[key], str | bool) and recorded[key] != given[key]:
                found.append(f"{here}: {recorded[key]!r} but {given[key]!r}")
        return found
    if isinstance(recorded, list) and isinstance(given, list):
        if bool(recorded) != bool(given):
            return [f"{at}: {len(recorded)} items but {len(given)}"]
        pairs = zip(recorded, given, strict=False)
        return [
            each for index, (mine, theirs) in enumerate(pairs) for each in differences(mine, theirs, f"{at}[{index}]")
        ]
    return [] if _kind(recorded) == _kind(given) else [f"{at}: {recorded!r} but {given!r}"]


def _kind(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return type(value).__name__
    return "number" if isinstance(value, int | float) else type(value).__name__


def only_entry(history: dict[str, Any]) -> dict[str, Any]:
    (entry,) = history.values()
    return dict(entry)
