"""Versions of packages of custom nodes in the list of ComfyUI-Manager."""

from __future__ import annotations

import pytest

from callsheet.providers.comfy.inventory import MAX_VERSION_LENGTH, versions_of_installed

COMMIT = "63d21361e08440a8836edc23dca4fb0d6c616c05"


def test_versions_are_those_of_the_registry_or_commits() -> None:
    listed = {
        "comfyui-impact-pack": {"ver": "8.2.1", "cnr_id": "comfyui-impact-pack", "aux_id": None, "enabled": True},
        "ComfyUI-TankNodes": {"ver": COMMIT, "cnr_id": "", "aux_id": "someone/ComfyUI-TankNodes", "enabled": True},
        "not-loaded": {"ver": "1.0", "cnr_id": "not-loaded", "aux_id": None, "enabled": True},
    }
    names = ["ComfyUI-Impact-Pack", "ComfyUI-TankNodes", "one_file"]
    assert versions_of_installed(listed, names) == {"ComfyUI-Impact-Pack": "8.2.1", "ComfyUI-TankNodes": COMMIT}


@pytest.mark.parametrize(
    "entry",
    [
        {"ver": "1.0", "enabled": False},
        {"ver": None},
        {"ver": 3},
        {"ver": " "},
        {"ver": "1.0\n2.0"},
        {"ver": "x" * (MAX_VERSION_LENGTH + 1)},
        {"version": "1.0"},
        "1.0",
        None,
        [],
    ],
    ids=repr,
)
def test_a_version_that_cannot_be_read_is_unknown(entry: object) -> None:
    assert versions_of_installed({"pack": entry, "other": {"ver": "2"}}, ["pack", "other"]) == {"other": "2"}


@pytest.mark.parametrize("listed", [None, [], {}, "text", 7, {"installed": [{"name": "pack"}]}], ids=repr)
def test_another_response_has_no_versions(listed: object) -> None:
    assert versions_of_installed(listed, ["pack"]) == {}
