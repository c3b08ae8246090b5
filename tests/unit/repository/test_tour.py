"""The images of docs/tour.md are made from the import contracts, so they show every room and cannot differ."""

from __future__ import annotations

from tools.tour import CONTROL_PLANE, ROOT, SOURCE, inside_jobs, layer_contracts, mermaid, rooms, rooms_of

PACKAGES = {file.parent.name for file in SOURCE.glob("*/__init__.py")}
ROOMS = {file.parent.name for file in (SOURCE / CONTROL_PLANE).glob("*/__init__.py")}


def drawn_in(image: str) -> list[str]:
    labels = [line.partition('["')[2].removesuffix('"]') for line in image.splitlines() if line.endswith('"]')]
    return [name for label in labels for name in label.split(" · ")]


def test_the_image_shows_every_room_once() -> None:
    assert sorted(drawn_in(rooms(layer_contracts()))) == sorted(ROOMS | PACKAGES - {CONTROL_PLANE})


def test_the_architecture_page_has_a_line_for_every_room() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert [room for room in sorted(ROOMS) if f"\n| `{room}/` |" not in page] == []


def test_the_image_of_jobs_shows_every_folder_of_it() -> None:
    folders = {file.parent.name for file in (SOURCE / CONTROL_PLANE / "jobs").glob("*/__init__.py")}
    assert folders <= set(drawn_in(inside_jobs(layer_contracts())))


def test_a_contract_becomes_boxes_with_an_arrow_to_the_next_layer() -> None:
    contract = ["callsheet.cli.main", "callsheet_demo | callsheet.app.rooms", "callsheet.cli.shared", "callsheet.wire"]
    layers = rooms_of(contract)
    assert layers == [["cli"], ["callsheet_demo", "app"], ["wire"]]
    lines = mermaid(layers, beside=[[["worker"], ["wire"]]]).splitlines()
    assert [line.strip() for line in lines[3:-1]] == [
        'layer0["cli"]',
        'layer1["callsheet_demo · app"]',
        'layer2["wire"]',
        'beside0["worker"]',
        "beside0 --> layer2",
        "layer0 --> layer1",
        "layer1 --> layer2",
    ]
