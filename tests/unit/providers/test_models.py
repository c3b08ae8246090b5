"""Which models a graph loads, and which an engine offers."""

from __future__ import annotations

from typing import Any

import pytest

from callsheet.providers.comfy.models import (
    classes_of_graph,
    custom_nodes_of_object_info,
    models_of_graph,
    models_of_object_info,
    short_hash,
)


def node(**inputs: Any) -> dict[str, Any]:
    return {"class_type": "Loader", "inputs": inputs}


@pytest.mark.parametrize(
    "name", ["ckpt_name", "unet_name", "vae_name", "lora_name", "clip_name", "clip_name1", "lora_name_2", "name"]
)
def test_inputs_of_loaders_name_models(name: str) -> None:
    assert models_of_graph({"1": node(**{name: "sub/a.SafeTensors"})}) == ["sub/a.SafeTensors"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("text", "as in a.safetensors"),
        ("prompt", "a.safetensors"),
        ("image_name", "a.png"),
        ("ckpt_name", ["4", 0]),
        ("ckpt_name", None),
    ],
)
def test_other_inputs_and_other_files_name_no_models(name: str, value: Any) -> None:
    assert models_of_graph({"1": node(**{name: value})}) == []


def test_each_file_and_each_class_counts_once() -> None:
    graph = {"1": node(ckpt_name="b.ckpt", vae_name="a.pt"), "2": node(ckpt_name="b.ckpt")}
    assert models_of_graph(graph) == ["b.ckpt", "a.pt"]
    assert classes_of_graph(graph) == ["Loader"]


def test_unusual_graphs_are_skipped() -> None:
    assert models_of_graph({"1": "no node", "2": {"inputs": "none"}, "3": {}}) == []


def test_choices_of_both_forms_are_found() -> None:
    info = {
        "CheckpointLoaderSimple": {"input": {"required": {"ckpt_name": [["b.ckpt", "readme.txt"], {"tooltip": "…"}]}}},
        "VAELoader": {"input": {"optional": {"vae_name": ["COMBO", {"options": ["a.pt", 3]}]}}},
        "LoadImage": {"input": {"required": {"image": [["cat.png"], {"image_upload": True}]}}},
        "Odd": {"input": {"required": {"x": "COMBO", "y": ["COMBO"], "z": [], "hidden": None}}},
        "Older": {"input": None},
        "Broken": None,
    }
    assert models_of_object_info(info) == ["a.pt", "b.ckpt"]


def test_a_short_hash_is_the_same_on_both_sides_and_takes_any_name() -> None:
    assert short_hash("a.ckpt") == short_hash("a.ckpt") != short_hash("b.ckpt")
    assert len(short_hash("\udcff.ckpt")) == 16


def test_custom_nodes_are_named_by_their_package() -> None:
    modules = ["nodes", "comfy_extras.nodes_video", "custom_nodes.impact-pack", "custom_nodes.impact-pack.sub", None, 7]
    info: dict[str, object] = {f"Class{number}": {"python_module": module} for number, module in enumerate(modules)}
    assert custom_nodes_of_object_info({**info, "Broken": "x"}) == ["impact-pack"]
