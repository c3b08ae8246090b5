"""The proposals of an import: suitable properties, and the node that makes the result."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from callsheet.catalog.proposals import inputs_of, propose
from callsheet.catalog.workflows import checked

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


def settled(graph: dict[str, Any], **options: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """The proposed graph and properties by key; whatever is proposed must be accepted."""
    before = copy.deepcopy(graph)
    proposal = propose(graph, **options)
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
    assert found.keys() == {"input", "image", "cfg", "denoise"}


def test_a_text_that_is_both_prompts_is_proposed_as_the_positive_prompt() -> None:
    graph = copy.deepcopy(EXPORT)
    graph["3"]["inputs"]["negative"] = ["6", 0]
    del graph["7"]
    _, found = settled(graph)
    assert found["prompt"].default == 'a "cat"'
    assert "negative_prompt" not in found
