"""The nodes that an import proposes as the result of a workflow, and the kinds of their files."""

from __future__ import annotations

from typing import Any

import pytest

from callsheet.catalog.properties import MIME_TYPES, check_output
from callsheet.catalog.proposing.outputs import named_output, outputs_of
from callsheet.catalog.proposing.proposals import propose
from callsheet.providers.comfy.node_forms import NodeForm, forms_of_object_info
from tests.support.comfyui.lightbox_recordings import sample


def graph_of(class_type: str, **inputs: Any) -> dict[str, Any]:
    return {"1": {"class_type": class_type, "inputs": inputs}}


@pytest.mark.parametrize(
    ("class_type", "inputs", "extension"),
    [
        ("SaveImage", {}, "png"),
        ("SaveVideo", {"format": "auto"}, "mp4"),
        ("SaveWEBM", {}, "webm"),
        ("VHS_VideoCombine", {"format": "video/h264-mp4"}, "mp4"),
        ("VHS_VideoCombine", {"format": "image/gif"}, "gif"),
        ("SaveAudioMP3", {}, "mp3"),
        ("SaveAudioOpus", {}, "opus"),
        ("MyFancyVideoSaver", {}, "mp4"),
        ("Image Save", {}, "png"),
        ("SaveImageWithPromptMetadata", {}, "png"),
        ("PreviewAudio", {}, "flac"),
        ("PreviewAny", {}, "txt"),
        ("ShowText|pysssss", {}, "txt"),
        ("easy showAnything", {}, "txt"),
        ("Display Any (rgthree)", {}, "txt"),
        ("SaveText", {}, "txt"),
        # Only an engine knows whether these are outputs.
        ("SaveLatent", {}, None),
        ("KSampler", {}, None),
        ("CLIPTextEncode", {}, None),
        ("ConditioningCombine", {}, None),
        ("StringCombine", {}, None),
        ("MySink", {"images": ["2", 0]}, None),
    ],
)
def test_the_name_of_a_class_decides_if_no_engine_declares_it(
    class_type: str, inputs: dict[str, Any], extension: str | None
) -> None:
    found = [output.extension for output in outputs_of(graph_of(class_type, **inputs), {})]
    assert found == ([] if extension is None else [extension])


@pytest.mark.parametrize(
    ("class_type", "inputs", "extension"),
    [
        ("MySink", {"images": ["2", 0]}, "png"),
        ("MySink", {"audio": ["2", 0], "text": "x"}, "flac"),
        ("MySink", {"text": ["2", 0], "folder": "a"}, "txt"),
        ("MySink", {"samples": ["2", 0], "image": "a constant"}, "bin"),
        ("MySink", {}, "bin"),
        ("SaveLatent", {"samples": ["2", 0]}, "bin"),
        ("Preview3D", {"model_file": ["2", 0]}, "bin"),
        ("MaskPreview+", {"mask": ["2", 0]}, "png"),
    ],
)
def test_a_node_that_engines_declare_as_output_is_proposed_and_never_called_a_video(
    class_type: str, inputs: dict[str, Any], extension: str
) -> None:
    graph = graph_of(class_type, **inputs)
    [output] = propose(graph, {class_type: NodeForm(is_output=True)}).outputs
    assert (output.node_id, output.extension, output.mime_type) == ("1", extension, MIME_TYPES[extension])
    assert list(check_output(graph, "1", output.extension, output.mime_type)) == []
    assert outputs_of(graph, {class_type: NodeForm(is_output=False)}) == []
    # The operator may choose it in any case.
    assert named_output(graph, "1") == output


def test_a_class_that_engines_do_not_declare_as_output_is_not_proposed_for_its_name() -> None:
    graph = graph_of("ImageCombine")
    assert [output.extension for output in outputs_of(graph, {})] == ["png"]
    assert outputs_of(graph, {"ImageCombine": NodeForm(is_output=False)}) == []


def test_what_an_engine_said_about_its_nodes_finds_the_outputs() -> None:
    forms = forms_of_object_info(sample("object_info_SaveImage_LoadImage"))
    graph = {
        "1": {"class_type": "LoadImage", "inputs": {"image": "a.png"}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "x"}},
    }
    assert [(output.node_id, output.extension) for output in outputs_of(graph, forms)] == [("2", "png")]


def test_the_likeliest_result_comes_first_then_previews_then_texts() -> None:
    classes = {
        "1": "PreviewImage",
        "2": "SaveImage",
        "3": "Image Save",
        "10": "SaveVideo",
        "4": "SaveVideo",
        "5": "ShowText|pysssss",
        "6": "PreviewAny",
        "7": "MaskPreview",
    }
    graph = {node_id: {"class_type": name, "inputs": {}} for node_id, name in classes.items()}
    forms = {"MaskPreview": NodeForm(is_output=True)}
    assert [output.node_id for output in outputs_of(graph, forms)] == ["4", "10", "2", "3", "1", "7", "6", "5"]


@pytest.mark.parametrize(("class_type", "extension"), [("SomethingElse", "bin"), ("SaveVideo", "mp4")])
def test_a_named_node_of_an_unknown_class_makes_a_file_of_an_unknown_kind(class_type: str, extension: str) -> None:
    assert named_output(graph_of(class_type), "1").extension == extension
