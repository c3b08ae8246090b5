"""What an engine declares about its nodes is kept in a small form; what a stranger sends in that form hurts nothing."""

from __future__ import annotations

import base64
import json
import random
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.providers.comfy.node_forms import (
    InputForm,
    NodeForm,
    agreed,
    forms_of_object_info,
    packed,
    unpacked,
)
from callsheet.wire.worker.environment import MAX_NODE_FORMS_LENGTH
from callsheet_lightbox.folders import Folders
from callsheet_lightbox.nodes import build_registry


def form(*declared: Any, name: str = "value") -> InputForm | None:
    info = {"Node": {"input": {"required": {name: list(declared)}}}}
    return forms_of_object_info(info)["Node"].inputs.get(name)


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        (["INT", {"default": 20, "min": 1, "max": 10000}], InputForm("integer", 20, 1, 10000)),
        (["FLOAT", {"default": 8.0, "min": 0.0, "step": 0.1}], InputForm("number", 8.0, 0.0, None, 0.1)),
        (["STRING", {"multiline": True, "dynamicPrompts": True}], InputForm("text", is_multiline=True)),
        (["BOOLEAN", {"default": False}], InputForm("boolean", False)),
        (["BOOLEAN"], InputForm("boolean")),
        ([["euler", "ddim"], {"tooltip": "x"}], InputForm("choice", "euler", choices=("euler", "ddim"))),
        (["COMBO", {"options": ["a", "b"], "default": "b"}], InputForm("choice", "b", choices=("a", "b"))),
        ([[512, 768]], InputForm("choice", 512, choices=(512, 768))),
        # Files that users upload change all the time.
        ([["a.png", "b.txt"], {"image_upload": True}], InputForm("image")),
        (["COMBO", {"options": [], "video_upload": True}], InputForm("video")),
        (["COMBO", {"options": ["a.wav"], "audio_upload": True}], InputForm("audio")),
        ([["a.png", "B.JPG"]], InputForm("image")),
        ([["a.mp3"]], InputForm("audio")),
        # Lists that cannot be the choices of a property.
        ([[]], InputForm("choice")),
        ([[str(number) for number in range(201)]], InputForm("choice")),
        ([[True, False]], InputForm("choice")),
        ([["a", {"key": "b"}]], InputForm("choice")),
        # Inputs that take a link only, several choices or a type of their own.
        (["IMAGE", {"tooltip": "x"}], None),
        (["STRING", {"forceInput": True}], None),
        (["COMBO", {"options": ["a"], "multiselect": True}], None),
        (["INT,FLOAT", {}], None),
        ([], None),
        (["INT", None], InputForm("integer")),
        (["INT", {"default": [], "min": "1", "max": True}], InputForm("integer")),
        (["FLOAT", {"default": float("nan"), "max": float("inf")}], InputForm("number")),
    ],
)
def test_an_input_keeps_its_type_its_limits_and_its_choices(declared: list[Any], expected: InputForm | None) -> None:
    assert form(*declared) == expected


def test_the_default_of_a_seed_is_left_out_because_some_packs_draw_it_at_each_reading() -> None:
    assert form("INT", {"default": 829_384_092, "min": 0}, name="noise_seed") == InputForm("integer", min=0)


def test_every_node_of_the_renderer_survives_the_way_to_the_control_plane(tmp_path: Any) -> None:
    folders = Folders.under(tmp_path)
    folders.prepare()
    registry = build_registry(True)
    forms = forms_of_object_info({name: registry.describe(name, folders) for name in registry.nodes})
    sent = packed(forms)
    assert sent is not None
    assert unpacked(base64.b64decode(sent), forms) == forms
    assert (forms["LoadImage"].inputs["image"].kind, forms["SaveImage"].is_output) == ("image", True)
    assert unpacked(base64.b64decode(sent), ["NoSuchNode"]) == {}


def test_choices_are_left_out_if_a_report_would_be_too_large_with_them() -> None:
    drawn = random.Random(5)
    choices = tuple(drawn.randbytes(20).hex() for _ in range(200))
    forms = {f"Node{number}": NodeForm({"a": InputForm("choice", choices=choices)}) for number in range(1)}
    assert '"choices"' in zlib.decompress(base64.b64decode(packed(forms) or "")).decode()
    for number in range(100):
        own = tuple(drawn.randbytes(20).hex() for _ in range(200))
        forms[f"Node{number}"] = NodeForm({"a": InputForm("choice", choices=own), "b": InputForm("boolean")})
    sent = packed(forms)
    assert sent is not None
    assert len(sent) < MAX_NODE_FORMS_LENGTH
    assert unpacked(base64.b64decode(sent), ["Node7"])["Node7"].inputs == {
        "a": InputForm("choice"),
        "b": InputForm("boolean"),
    }
    forms |= {drawn.randbytes(150).hex(): NodeForm(title="x") for _ in range(2000)}
    assert packed(forms) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["inputs", "kind", "default", "min", "max", "step", "choices", "title", "is_multiline"]),
            inner | st.sampled_from(["integer", "choice", "text", "image", "boolean"]),
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(JSON)
def test_anything_that_a_worker_sends_is_read_without_an_error(document: Any) -> None:
    content = zlib.compress(json.dumps({"A": document, "B": {"inputs": {"x": document}}}).encode())
    for found in unpacked(content, ["A", "B", "C"]).values():
        for each in found.inputs.values():
            assert each.kind in ("text", "integer", "number", "boolean", "choice", "image", "video", "audio")
            assert isinstance(each.min, int | float | None)
            json.dumps([each.default, each.choices], allow_nan=False)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not compressed",
        zlib.compress(b"not JSON"),
        zlib.compress(b"[]"),
        zlib.compress(b"[" * 100_000),
        zlib.compress(b'{"A": {}}')[:-3],
        zlib.compress(b" " * 40_000_000 + b'{"A": {}}'),
    ],
    ids=["empty", "plain", "text", "list", "deep", "cut", "bomb"],
)
def test_a_report_that_cannot_be_read_is_as_if_there_were_none(content: bytes) -> None:
    assert unpacked(content, ["A"]) == {}


def test_engines_agree_on_the_narrowest_limits_and_on_the_choices_of_all() -> None:
    one = {"A": NodeForm({"n": InputForm("integer", 5, 0, 100, 1), "c": InputForm("choice", "a", choices=("a", "b"))})}
    other = {
        "A": NodeForm({"n": InputForm("integer", 7, 1, 200, 2), "c": InputForm("choice", "b", choices=("b", "c"))}),
        "B": NodeForm({"t": InputForm("text")}),
    }
    assert agreed([one, other]) == {
        "A": NodeForm({"n": InputForm("integer", 5, 1, 100), "c": InputForm("choice", "a", choices=("b",))}),
        "B": other["B"],
    }
    renamed = {"A": NodeForm({"n": InputForm("text"), "c": InputForm("choice", choices=("z",))})}
    assert agreed([one, renamed])["A"].inputs == {"c": InputForm("choice", "a")}
    assert agreed([]) == {}
