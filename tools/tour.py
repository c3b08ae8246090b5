"""The generated parts of docs/tour.md: the rooms, from the import contracts, and the folders, from their docstrings."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
TOUR = ROOT / "docs" / "tour.md"
CONTROL_PLANE = "callsheet"
# Packages with many modules of one kind: their own pages describe them.
NOT_LISTED = ("callsheet/providers/", "callsheet_lightbox/", "callsheet/settings/", "callsheet/plumbing/migrations")
# Otherwise seventeen layers are higher than a screen.
CLOSE_TOGETHER = '%%{init: {"flowchart": {"rankSpacing": 14, "padding": 7}}}%%'
Layers = Sequence[Sequence[str]]


def tour_page() -> str:
    """The page on disk, with its generated parts written anew."""
    page = TOUR.read_text(encoding="utf-8")
    contracts = layer_contracts()
    for name, text in {"rooms": rooms(contracts), "jobs": inside_jobs(contracts), "folders": folders()}.items():
        start, end = f"<!-- generated: {name} -->\n", f"<!-- /generated: {name} -->"
        before, _, rest = page.partition(start)
        page = f"{before}{start}{text}\n{end}{rest.partition(end)[2]}"
    return page


def layer_contracts() -> list[dict[str, Any]]:
    """The contracts of import-linter that are layers, in the order of pyproject.toml."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    return [contract for contract in contracts if contract["type"] == "layers"]


def rooms(contracts: Sequence[dict[str, Any]]) -> str:
    """All rooms in one image: a layer may import every layer below it."""
    main, *others = [rooms_of(contract["layers"]) for contract in contracts if "containers" not in contract]
    return mermaid(main, beside=others)


def inside_jobs(contracts: Sequence[dict[str, Any]]) -> str:
    contract = next(each for each in contracts if each.get("containers") == [f"{CONTROL_PLANE}.jobs"])
    return mermaid([re.split(r"\s*[|:]\s*", layer) for layer in contract["layers"]])


def rooms_of(layers: Sequence[str]) -> list[list[str]]:
    """The rooms of each layer. A room whose parts are on several layers is drawn on the highest of them."""
    drawn: set[str] = set()
    found: list[list[str]] = []
    for layer in layers:
        names = dict.fromkeys(room_of(name) for name in re.split(r"\s*[|:]\s*", layer))
        new = [name for name in names if name not in drawn]
        drawn.update(new)
        if new:
            found.append(new)
    return found


def room_of(dotted: str) -> str:
    """The room of a package or module; a package beside the control plane is a room of its own."""
    package, _, rest = dotted.partition(".")
    return rest.partition(".")[0] if package == CONTROL_PLANE else package


def mermaid(main: Layers, beside: Sequence[Layers] = ()) -> str:
    """Each layer is a box. `beside`: layers that are above one of the main layers only."""
    lines = ["```mermaid", CLOSE_TOGETHER, "flowchart TB"]
    level = {name: number for number, layer in enumerate(main) for name in layer}
    for number, layer in enumerate(main):
        lines.append(_box(f"layer{number}", layer))
    for index, layers in enumerate(beside):
        on = next(number for number, layer in enumerate(layers) if all(name in level for name in layer))
        own = [name for layer in layers[:on] for name in layer]
        lines += [_box(f"beside{index}", own), f"  beside{index} --> layer{level[layers[on][0]]}"]
    lines += [f"  layer{number} --> layer{number + 1}" for number in range(len(main) - 1)]
    return "\n".join([*lines, "```"])


def _box(name: str, layer: Sequence[str]) -> str:
    return f'  {name}["{" · ".join(layer)}"]'


def folders() -> str:
    """Every folder of the source with the first sentence of its docstring."""
    rows = ["| folder | what is in it |", "|---|---|"]
    for file in sorted(SOURCE.rglob("__init__.py"), key=lambda file: file.parent.parts):
        name = file.parent.relative_to(SOURCE).as_posix()
        if name != CONTROL_PLANE and not name.startswith(NOT_LISTED):
            docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
            sentence = " ".join(docstring.split("\n\n")[0].split())
            rows.append(f"| `{name.removeprefix(f'{CONTROL_PLANE}/')}/` | {sentence} |")
    return "\n".join(rows)
