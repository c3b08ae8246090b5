"""Writes the OpenAPI document of the control plane: `python -m tools.write_openapi FILE`. It needs no database.

The types of the web application are generated from it. An unchanged document keeps its file's time, so that `make web`
builds nothing.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from callsheet.app.control_plane import openapi_document
from callsheet.settings import load_settings


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as home:
        document = openapi_document(load_settings(home=Path(home)))
    text = json.dumps(document, ensure_ascii=False, indent=1, sort_keys=True)
    if not target.exists() or target.read_text(encoding="utf-8") != text:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
