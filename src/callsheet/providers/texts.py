"""Writes results that are not files to files."""

from __future__ import annotations

import hashlib
from pathlib import Path

from callsheet.providers.engine import FetchedOutput


def save_text(text: str, target: Path) -> FetchedOutput:
    content = text.encode("utf-8", "replace")
    target.write_bytes(content)
    return FetchedOutput(len(content), hashlib.sha256(content).hexdigest())
