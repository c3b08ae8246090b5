"""How much script a page loads. People on phones wait for each of these bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callsheet.web.files import STATIC

FIRST_PAGE, ANY_PAGE = 180_000, 250_000
ENTRY, FRAME, FIRST = "index.html", "src/frame/Frame.tsx", "src/pages/effects/EffectsPage.tsx"


def loaded_with(manifest: dict[str, Any], *names: str) -> set[str]:
    """The scripts that these chunks cannot do without."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += manifest[name].get("imports", ())
    return found


def compressed_bytes(manifest: dict[str, Any], names: set[str]) -> int:
    files = [STATIC / manifest[name]["file"] for name in names]
    compressed = [file.with_name(f"{file.name}.gz") for file in files]
    # Tiny files are served as they are.
    return sum(
        (zipped if zipped.exists() else file).stat().st_size for file, zipped in zip(files, compressed, strict=True)
    )


@pytest.mark.usefixtures("_built")
def test_every_page_stays_within_its_budget() -> None:
    manifest = json.loads((STATIC / "manifest.json").read_text(encoding="utf-8"))
    pages = [name for name in manifest if name.startswith("src/pages/")]
    assert FIRST in pages
    sizes = {name: compressed_bytes(manifest, loaded_with(manifest, ENTRY, FRAME, name)) for name in pages}
    assert {name: size for name, size in sizes.items() if size > ANY_PAGE} == {}
    assert sizes[FIRST] <= FIRST_PAGE, sizes
