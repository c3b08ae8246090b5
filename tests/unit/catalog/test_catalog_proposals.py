"""The proposals of an import: suitable properties, and the node that makes the result."""

from __future__ import annotations

import copy
from math import isfinite
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.catalog.proposing.proposals import inputs_of, propose
from callsheet.catalog.workflows import checked
from callsheet.providers.comfy.node_forms import NodeForms, forms_of_object_info

EXPORT: dict[str, Any] = {
    "3": {
        "class_type": "KSampler",
        "inputs": {
            "seed": -1,
            "steps": 6,
            "cfg": 7,
            "denoise": 1.0,
            "sampler_name": "euler",
            "model": ["4", 0],
            "positive": ["6", 0],
            "negative": ["7", 0],
            "latent_image": ["10", 0],
        },
    },
    "4": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "sd15.safetensors"}},
    "6": {"class_type": "CLIPTextEncode", "inputs": {"text": 'a "cat"', "clip": ["4", 1]}, "_meta": {"title": "Good"}},
    "7": {"class_type": "CLIPTextEncode", "inputs": {"text": "blurry", "clip": ["4", 1]}},
    "8": {"class_type": "LoadImage", "inputs": {"image": "logo.png", "upload": "image"}},
    "10": {"class_type": "VHS_LoadVideo", "inputs": {"video": "clip.mp4", "force_rate": 0}},
    "11": {"class_type": "PreviewImage", "inputs": {"images": ["8", 0]}},
    "12": {
        "class_type": "VHS_VideoCombine",
        "inputs": {"images": ["3", 0], "format": "video/webm", "filename_prefix": "out"},
    },
}


def settled(
    graph: dict[str, Any], forms: NodeForms | None = None, **options: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The proposed graph and properties by key; whatever is proposed must be accepted."""
    before = copy.deepcopy(graph)
    proposal = propose(graph, forms, **options)
    assert graph == before
    best = proposal.outputs[0]
    output = {
        "output_node_id": best.node_id,
        "output_extension": best.extension,
        "output_mime_type": best.mime_type,
    }
    checked(proposal.graph, proposal.properties, output)
    assert proposal.places.keys() == {each.key for each in proposal.properties}
    return proposal.graph, {each.key: each for each in proposal.properties}


def test_prompts_images_and_videos_become_properties() -> None:
    graph, found = settled(EXPORT)
    assert {key: (each.type.value, each.placeholder, each.default) for key, each in found.items()} == {
        "input": ("video", "__INPUT_PATH__", None),
        "image": ("image", "__IMAGE__", None),
        "prompt": ("text", "{{prompt}}", 'a "cat"'),
        "negative_prompt": ("text", "{{negative_prompt}}", "blurry"),
    }
    assert [key for key, each in found.items() if each.is_primary_input] == ["input"]
    assert all(each.user_configurable for each in found.values())
    assert graph["10"]["inputs"] == {"video": "__INPUT_PATH__", "force_rate": 0}
    assert graph["8"]["inputs"] == {"image": "__IMAGE__", "upload": "image"}
    assert graph["6"]["inputs"]["text"] == "{{prompt}}"
    assert graph["4"] == EXPORT["4"]


def test_the_option_all_proposes_numbers_but_users_may_set_only_seeds() -> None:
    graph, found = settled(EXPORT, everything=True)
    numbers = {key: (each.default, each.user_configurable, each.limits.integer) for key, each in found.items()}
    assert {key: numbers[key] for key in ("seed", "steps", "cfg", "denoise")} == {
        "seed": (-1, True, True),
        "steps": (6, False, True),
        "cfg": (7, False, False),
        "denoise": (1.0, False, False),
    }
    assert graph["3"]["inputs"]["seed"] == "{{seed}}"
    assert "sampler_name" not in found


def test_the_first_image_is_the_input_if_there_is_no_video() -> None:
    graph = {node_id: node for node_id, node in EXPORT.items() if node_id not in ("10", "3", "12")}
    graph["20"] = {"class_type": "LoadImageMask", "inputs": {"image": "mask.png", "channel": "red"}}
    _, found = settled(graph)
    assert {key: each.is_primary_input for key, each in found.items() if each.type.value == "image"} == {
        "input": True,
        "image": False,
    }


@pytest.mark.parametrize(
    ("class_type", "name", "text"),
    [
        ("LoadAudio", "audio", "__INPUT_PATH__"),
        ("RecordAudio", "audio", "__INPUT_PATH__"),
        ("VHS_LoadAudioUpload", "audio", "__INPUT_PATH__"),
        # This class reads a path, relative to the directory of ComfyUI.
        ("VHS_LoadAudio", "audio_file", "input/__INPUT_PATH__"),
        ("Load Audio (Any Pack)", "file", "__INPUT_PATH__"),
        ("AudioLoader", "anything", None),
        ("MyLoad_Audio", "path", "__INPUT_PATH__"),
    ],
)
def test_a_sound_becomes_a_property(class_type: str, name: str, text: str | None) -> None:
    graph = {
        "1": {"class_type": class_type, "inputs": {name: "input/voice.wav", "seek_seconds": 0}},
        "2": {"class_type": "SaveAudio", "inputs": {"audio": ["1", 0], "filename_prefix": "x"}},
    }
    changed, found = settled(graph)
    if text is None:
        assert found == {}
        return
    [primary] = found.values()
    assert (primary.key, primary.type.value, primary.placeholder) == ("input", "audio", "__INPUT_PATH__")
    assert (primary.is_primary_input, primary.required, primary.label) == (True, True, "Input")
    assert changed["1"]["inputs"] == {name: text, "seek_seconds": 0}
    [output] = propose(graph).outputs
    assert (output.extension, output.mime_type) == ("flac", "audio/flac")


def test_a_sound_beside_an_image_or_a_video_is_the_second_file() -> None:
    graph = {"30": {"class_type": "LoadAudio", "inputs": {"audio": "a.mp3"}}, **EXPORT}
    changed, found = settled(graph)
    assert {key: each.is_primary_input for key, each in found.items() if each.type.value not in ("text",)} == {
        "input": True,
        "image": False,
        "audio": False,
    }
    assert (found["audio"].placeholder, found["audio"].label) == ("__AUDIO__", "Audio")
    assert changed["30"]["inputs"]["audio"] == "__AUDIO__"


def test_an_input_of_a_loader_can_be_every_kind_of_file() -> None:
    [found] = inputs_of({"1": {"class_type": "LoadAudio", "inputs": {"audio": "a.mp3"}}})
    assert [each.value for each in found.types] == ["audio", "video", "image", "choice"]


def test_several_prompts_are_numbered() -> None:
    graph = {
        **EXPORT,
        "30": {"class_type": "CLIPTextEncodeSDXL", "inputs": {"text_g": "a", "text_l": "b", "clip": ["4", 1]}},
    }
    _, found = settled(graph)
    assert {"prompt", "prompt_2", "prompt_3"} <= found.keys()


def test_placeholders_that_are_in_the_graph_already_keep_their_names() -> None:
    graph = copy.deepcopy(EXPORT)
    graph["7"]["inputs"]["text"] = "{{prompt}} of {{city}}, twice {{city}}"
    changed, found = settled(graph)
    assert changed["7"] == graph["7"]
    assert {key: found[key].required for key in ("prompt", "city", "prompt_2")} == {
        "prompt": True,
        "city": True,
        "prompt_2": False,
    }


def test_values_that_are_not_valid_defaults_are_not_proposed() -> None:
    graph = copy.deepcopy(EXPORT)
    graph["6"]["inputs"]["text"] = "bell \x07"
    graph["7"]["inputs"]["text"] = "x" * 20_001
    graph["3"]["inputs"]["seed"] = 10**30
    graph["3"]["inputs"]["steps"] = True
    _, found = settled(graph, everything=True)
    assert found.keys() == {"input", "image", "cfg", "denoise", "steps", "force_rate"}
    assert found["steps"].type.value == "boolean"


def test_a_text_that_is_both_prompts_is_proposed_as_the_positive_prompt() -> None:
    graph = copy.deepcopy(EXPORT)
    graph["3"]["inputs"]["negative"] = ["6", 0]
    del graph["7"]
    _, found = settled(graph)
    assert found["prompt"].default == 'a "cat"'
    assert "negative_prompt" not in found


FORMS = forms_of_object_info(
    {
        "KSampler": {
            "display_name": "KSampler",
            "input": {
                "required": {
                    "seed": ["INT", {"default": 0, "min": 0, "max": 2**64 - 1}],
                    "steps": ["INT", {"default": 20, "min": 1, "max": 10000}],
                    "cfg": ["FLOAT", {"default": 8.0, "min": 0.0, "max": 100.0, "step": 0.1, "round": 0.01}],
                    "denoise": ["FLOAT", {"default": 1.0, "min": 0.0, "max": 1.0, "step": 0.01}],
                    "sampler_name": [["euler", "dpmpp_2m"], {}],
                }
            },
        },
        "CheckpointLoaderSimple": {
            "display_name": "Load Checkpoint",
            "input": {"required": {"ckpt_name": [["sd15.safetensors", "sdxl.safetensors"]]}},
        },
        "LoadImage": {
            "display_name": "Load Image",
            "input": {"required": {"image": [["a.png"], {"image_upload": True}]}},
        },
        "PhotoPicker": {
            "display_name": "Pick a photo",
            "input": {
                "required": {
                    "photo": ["COMBO", {"options": [], "image_upload": True}],
                    "caption": ["STRING", {"multiline": True}],
                    "font": ["STRING", {"default": "Inter"}],
                    "size": ["INT", {"default": 24, "min": 8, "max": 96, "step": 4}],
                    "place": [["top", "bottom"], {"default": "bottom"}],
                    "shadow": ["BOOLEAN", {"default": True}],
                }
            },
        },
        "SaveImage": {"output_node": True, "display_name": "Save Image", "input": {"required": {"images": ["IMAGE"]}}},
    }
)
CUSTOM: dict[str, Any] = {
    "1": {
        "class_type": "PhotoPicker",
        "inputs": {"photo": "x.png", "caption": "Hi", "font": "Inter", "size": 24, "place": "top", "shadow": False},
        "_meta": {"title": "Pick a photo"},
    },
    "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "x"}},
}


def test_types_limits_and_choices_are_those_that_engines_declare() -> None:
    graph, found = settled(EXPORT, FORMS, everything=True)
    assert {key: found[key].limits.model_dump(exclude_unset=True, exclude_none=True) for key in ("steps", "cfg")} == {
        "steps": {"integer": True, "min": 1.0, "max": 10000.0},
        "cfg": {"integer": False, "min": 0.0, "max": 100.0, "step": 0.1},
    }
    # The value of the graph is always allowed, and an engine refuses 2^64.
    assert (found["seed"].limits.min, found["seed"].limits.max) == (-1, 2**64 - 2048)
    sampler = found["sampler_name"]
    assert (sampler.type.value, sampler.default, sampler.limits.choices) == ("choice", "euler", ["euler", "dpmpp_2m"])
    assert graph["3"]["inputs"]["sampler_name"] == "{{sampler_name}}"
    # A model that is a property would no longer be required of an engine.
    assert graph["4"] == EXPORT["4"]


def test_the_largest_seed_of_an_engine_is_a_valid_default() -> None:
    graph = copy.deepcopy(EXPORT)
    graph["3"]["inputs"]["seed"] = 2**64 - 1
    assert settled(graph, FORMS, everything=True)[1]["seed"].default == 2**64 - 1


def test_a_value_beside_the_steps_keeps_its_default_without_the_step() -> None:
    graph = copy.deepcopy(EXPORT)
    graph["3"]["inputs"] |= {"cfg": 7.25, "denoise": 2, "steps": 6.5}
    _, found = settled(graph, FORMS, everything=True)
    assert (found["cfg"].default, found["cfg"].limits.step) == (7.25, None)
    assert (found["denoise"].default, found["denoise"].limits.max) == (2, 2)
    assert (found["steps"].default, found["steps"].limits.integer) == (6.5, False)


def test_custom_nodes_are_known_by_what_they_declare() -> None:
    graph, found = settled(CUSTOM, FORMS)
    assert {key: (each.type.value, each.default) for key, each in found.items()} == {
        "input": ("image", None),
        "caption": ("text", "Hi"),
    }
    assert graph["1"]["inputs"]["photo"] == "__INPUT_PATH__"
    _, found = settled(CUSTOM, FORMS, everything=True)
    assert {key: (each.type.value, each.default) for key, each in found.items() if key not in ("input", "caption")} == {
        "size": ("number", 24),
        "place": ("choice", "top"),
        "shadow": ("boolean", False),
    }
    assert (found["size"].limits.min, found["size"].limits.max, found["size"].limits.step) == (8, 96, 4)
    # Without an engine, the graph alone says less.
    _, found = settled(CUSTOM, everything=True)
    assert {key: each.type.value for key, each in found.items()} == {"size": "number", "shadow": "boolean"}


@pytest.mark.parametrize("forms", [None, FORMS], ids=["graph", "engine"])
@pytest.mark.parametrize(
    ("title", "label"),
    [
        ("Customer photo", "Customer photo"),
        ("  Customer\n photo ", "Customer photo"),
        ("客户照片", "客户照片"),
        ("Load Image", "Image"),
        ("load image", "Image"),
        ("LoadImage", "Image"),
        ("", "Image"),
        ("!!", "Image"),
        (7, "Image"),
        (None, "Image"),
        ("x" * 300, "x" * 200),
    ],
)
def test_the_title_that_a_person_gave_to_a_node_is_the_label(title: Any, label: str, forms: Any) -> None:
    graph = copy.deepcopy(EXPORT)
    graph["8"]["_meta"] = {"title": title}
    assert settled(graph, forms)[1]["image"].label == label


def test_a_node_with_several_properties_names_them_in_their_labels() -> None:
    graph = copy.deepcopy(EXPORT)
    graph["3"]["_meta"] = {"title": "Portrait"}
    graph["6"]["_meta"] = {"title": "CLIP Text Encode (Prompt)"}
    graph["7"]["_meta"] = "not an object"
    _, found = settled(graph, FORMS, everything=True)
    assert (found["steps"].label, found["seed"].label) == ("Portrait: Steps", "Portrait: Seed")
    assert (found["prompt"].label, found["negative_prompt"].label) == ("Prompt", "Negative prompt")


def test_a_placeholder_in_a_number_input_is_a_number() -> None:
    graph = copy.deepcopy(EXPORT)
    graph["3"]["inputs"] |= {"steps": "{{amount}}", "sampler_name": "{{method}}", "cfg": "{{cfg}}"}
    graph["6"]["inputs"]["text"] = "{{amount}} cats in {{method}}"
    _, found = settled(graph, FORMS)
    assert {key: (found[key].type.value, found[key].default, found[key].required) for key in ("amount", "cfg")} == {
        "amount": ("number", 20, False),
        "cfg": ("number", 8.0, False),
    }
    assert (found["amount"].limits.integer, found["amount"].limits.max) == (True, 10000)
    assert (found["method"].type.value, found["method"].limits.choices) == ("choice", ["euler", "dpmpp_2m"])
    # Without an engine, the name of the input or another node of the class says so.
    _, found = settled(graph)
    assert {key: found[key].type.value for key in ("amount", "cfg", "method")} == {
        "amount": "number",
        "cfg": "number",
        "method": "text",
    }
    graph = {**copy.deepcopy(CUSTOM), "3": copy.deepcopy(CUSTOM["1"])}
    graph["3"]["inputs"]["size"] = "{{letters}}"
    _, found = settled(graph)
    assert (found["letters"].type.value, found["letters"].required) == ("number", True)


def test_a_workflow_gets_no_more_properties_than_it_may_have_and_the_usual_ones_first() -> None:
    graph = {
        **EXPORT,
        **{str(number): {"class_type": "X", "inputs": {"a": 1, "b": True}} for number in range(100, 160)},
    }
    _, found = settled(graph, everything=True)
    assert len(found) == 100
    assert {"seed", "steps", "cfg", "denoise"} <= found.keys()
    assert propose(graph, everything=True).left_out == 4 + 5 + 120 - 100


def test_the_inputs_of_a_graph_have_the_limits_and_labels_of_a_property() -> None:
    graph = copy.deepcopy(CUSTOM)
    graph["1"]["_meta"] = {"title": "Card"}
    found = {each.name: each for each in inputs_of(graph, FORMS) if each.node_id == "1"}
    assert {name: [kind.value for kind in each.types] for name, each in found.items()} == {
        "photo": ["image", "choice"],
        "caption": ["text", "choice"],
        "font": ["text", "choice"],
        "size": ["number", "choice"],
        "place": ["choice"],
        "shadow": ["boolean"],
    }
    assert (found["size"].label, found["size"].limits.max) == ("Card: Size", 96)
    assert found["place"].limits.choices == ["top", "bottom"]


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["{{a}}", "x\x07", "y" * 20_001]),
)
DECLARED = st.one_of(
    st.tuples(
        st.sampled_from(["INT", "FLOAT", "STRING", "BOOLEAN", "COMBO", "IMAGE"]),
        st.dictionaries(
            st.sampled_from(["default", "min", "max", "step", "options", "multiline", "image_upload"]),
            st.one_of(VALUES, st.lists(VALUES, max_size=4)),
        ),
    ).map(list),
    st.tuples(st.lists(VALUES, max_size=4)).map(list),
)


def is_finite(value: object) -> bool:
    return not isinstance(value, float) or isfinite(value)


def test_a_placeholder_of_an_input_without_a_usable_choice_is_a_text() -> None:
    forms = forms_of_object_info({"Node": {"input": {"required": {"name": [["\x1f"]]}}}})
    graph = {
        "1": {"class_type": "Node", "inputs": {"name": "{{a}}"}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0]}},
    }
    _, found = settled(graph, forms)
    assert found["a"].type.value == "text"


@given(
    # A graph is a document, which has finite numbers only. The declarations of an engine may have any number.
    values=st.dictionaries(st.text(max_size=6), VALUES.filter(is_finite), max_size=4),
    declared=st.lists(DECLARED, min_size=4, max_size=4),
)
def test_whatever_a_graph_contains_and_an_engine_declares_the_proposal_is_accepted(
    values: dict[str, Any], declared: list[Any]
) -> None:
    forms = forms_of_object_info({"Node": {"input": {"required": dict(zip(values, declared, strict=False))}}})
    graph = {
        "1": {"class_type": "Node", "inputs": values},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0]}},
    }
    settled(graph, forms, everything=True)
    settled(graph, forms)
    settled(graph, everything=True)
    for each in inputs_of(graph, forms):
        assert each.types
