"""Writes what the web application and the TypeScript client are generated from: `python -m tools.write_openapi DOCUMENT
CODES`. It needs no database.

DOCUMENT is the OpenAPI document of the control plane. CODES is a module in TypeScript with a class for each problem
code. A file whose text has not changed keeps its time, so that `make web` builds nothing.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from callsheet.app.control_plane import openapi_document
from callsheet.client.errors import CLASSES
from callsheet.settings import load_settings
from callsheet.wire.errors import Refusal

HEAD = """\
// A class for each code that the control plane refuses with. Generated from src/callsheet/wire/errors.py.
import { Refusal } from "./problems.ts";
"""


def main(document: Path, codes: Path) -> None:
    with tempfile.TemporaryDirectory() as home:
        described = openapi_document(load_settings(home=Path(home)))
    write(document, json.dumps(described, ensure_ascii=False, indent=1, sort_keys=True))
    write(codes, classes())


def classes() -> str:
    """The table of codes. A class comes after the one that it extends."""
    found = (each for each in CLASSES.values() if each is not Refusal)
    chosen = sorted(found, key=lambda each: (len(each.__mro__), each.code))
    parts = [HEAD]
    for each in chosen:
        sentence = " ".join((each.__doc__ or "").split())
        parts.append(f"/** {sentence} */\nexport class {each.__name__} extends {each.__mro__[1].__name__} {{}}\n")
    rows = "".join(f"  {each.code}: {each.__name__},\n" for each in sorted(chosen, key=lambda each: each.code))
    parts.append(f"export const CLASSES: Record<string, typeof Refusal> = {{\n{rows}}};\n")
    return "\n".join(parts)


def write(target: Path, text: str) -> None:
    if not target.exists() or target.read_text(encoding="utf-8") != text:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
