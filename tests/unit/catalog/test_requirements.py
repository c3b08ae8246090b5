"""The requirements of a workflow, and what an environment lacks."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from callsheet.catalog.engines.requirements import MAX_MISSING, ReportedInventory, lacks, missing_text, required_of
from callsheet.wire.catalog import Property
from callsheet.wire.worker.environment import Environment, Lack, Required, Requirements

GRAPH = {
    "1": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "sd15.safetensors"}},
    "2": {"class_type": "LoraLoader", "inputs": {"lora_name": "{{lora}}.safetensors", "model": ["1", 0]}},
    "3": {"class_type": "VHS_LoadVideo", "inputs": {"video": "__INPUT_PATH__"}},
}
LORA = Property.model_validate({"key": "lora", "type": "text", "placeholder": "{{lora}}"})
HASH = "ab" * 32


def required(**requirements: Any) -> Required:
    found = required_of(GRAPH, [LORA], Requirements.model_validate(requirements))
    assert found is not None
    return found


def inventory(**environment: Any) -> ReportedInventory:
    return ReportedInventory.of(Environment.model_validate(environment))


def missing(of: Required, **environment: Any) -> list[tuple[str, str]]:
    return [(lack.kind, lack.name) for lack in lacks(of, inventory(**environment))]


def test_requirements_of_a_graph_do_not_include_inputs_that_a_job_fills_in() -> None:
    found = required()
    assert found.node_classes == ["CheckpointLoaderSimple", "LoraLoader", "VHS_LoadVideo"]
    assert [model.name for model in found.models] == ["sd15.safetensors"]
    assert found.engine_version is None


def test_a_workflow_without_a_graph_requires_nothing() -> None:
    assert required_of(None, [], Requirements()) is None


def test_requirements_of_a_graph_can_be_narrowed_switched_off_and_extended() -> None:
    assert required(ignore=["VHS_LoadVideo", "sd15.safetensors"]) == Required(
        node_classes=["CheckpointLoaderSimple", "LoraLoader"]
    )
    assert required(from_graph=False) == Required()
    added = required(
        from_graph=False,
        node_classes=["Extra"],
        models=[{"name": "sd15.safetensors", "sha256": HASH}],
        engine_version=">=0.3.57",
    )
    assert (added.node_classes, added.models[0].sha256, added.engine_version) == (["Extra"], HASH, ">=0.3.57")


def test_a_model_named_by_the_graph_and_by_hash_is_required_once_with_its_hash() -> None:
    [model] = required(models=[{"name": "sd15.safetensors", "sha256": HASH}]).models
    assert model.sha256 == HASH


def test_a_worker_that_reports_nothing_lacks_nothing() -> None:
    assert missing(required(engine_version=">=9")) == []
    assert missing(required(), models=[{"name": "sd15.safetensors"}]) == []


def test_missing_requirements_are_named() -> None:
    classes = ["CheckpointLoaderSimple", "LoraLoader"]
    assert missing(required(), node_classes=classes, models=[]) == [
        ("node_class", "VHS_LoadVideo"),
        ("model", "sd15.safetensors"),
    ]
    assert missing(required(), node_classes=[*classes, "VHS_LoadVideo"], models=[{"name": "sd15.safetensors"}]) == []


@pytest.mark.parametrize(
    ("reported", "expected"), [(HASH, []), (None, [("model_hash", "m.ckpt")]), ("cd" * 32, [("model_hash", "m.ckpt")])]
)
def test_a_required_hash_must_be_reported(reported: str | None, expected: list[tuple[str, str]]) -> None:
    wanted = required(from_graph=False, models=[{"name": "m.ckpt", "sha256": HASH}])
    assert missing(wanted, models=[{"name": "m.ckpt", "sha256": reported}]) == expected


@pytest.mark.parametrize(
    ("version", "conditions", "fits"),
    [
        ("0.7.0", ">=0.7", True),
        ("v0.7", "==0.7.0", True),
        ("0.10.1", ">=0.9", True),
        ("0.3.57", ">=0.3.57,<0.8", True),
        ("0.8.0", ">=0.3.57, <0.8", False),
        ("0.8.1", "!=0.8.1", False),
        ("0.8.1", ">0.8.1", False),
        ("0.8.1", "<=0.8.1", True),
        ("nightly", ">=0.1", False),
    ],
)
def test_versions_are_compared_as_numbers(version: str, conditions: str, fits: bool) -> None:
    wanted = required(from_graph=False, engine_version=conditions)
    assert missing(wanted, engine_versions=[version]) == ([] if fits else [("engine_version", conditions)])


def test_one_engine_of_the_version_is_enough() -> None:
    wanted = required(from_graph=False, engine_version=">=0.8")
    assert missing(wanted, engine_versions=["0.7.0", "0.8.0"]) == []
    assert missing(wanted, engine_versions=[]) == [("engine_version", ">=0.8")]


@pytest.mark.parametrize("text", ["", "0.8", ">=", ">=0.8,", ">=0.8 <1", "~=1.0", ">=1.2.3.4.5"])
def test_conditions_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        Requirements(engine_version=text)


def test_only_the_first_few_missing_requirements_are_kept() -> None:
    wanted = required(from_graph=False, node_classes=[f"Node{number}" for number in range(100)])
    assert len(missing(wanted, node_classes=[])) == MAX_MISSING


def test_custom_nodes_are_named_first_and_the_rest_is_counted() -> None:
    wanted = required(from_graph=False, node_classes=["CLIPTextEncode", "AlphaBlend", "ZetaMask", "KSampler"])
    lacking = lacks(wanted, inventory(node_classes=[]))
    assert [lack.name for lack in lacking] == ["AlphaBlend", "ZetaMask", "CLIPTextEncode", "KSampler"]
    # Counts come in another order from the database.
    counts = [(lack, 2) for lack in (*reversed(lacking), MODEL)]
    assert missing_text(counts, 2) == (
        "No worker has the node class AlphaBlend, the node class ZetaMask, the model sd15.safetensors, the node class "
        "CLIPTextEncode or the node class KSampler."
    )
    more = [(Lack(kind="node_class", name=f"Node{number:02}"), 1) for number in range(12)]
    assert missing_text(more, 1).endswith("the node class Node04 and 7 more.")
    assert missing_text(more + more, 1).endswith("the node class Node02 and at least 19 more.")


NODE, MODEL = Lack(kind="node_class", name="VHS_LoadVideo"), Lack(kind="model", name="sd15.safetensors")


@pytest.mark.parametrize(
    ("counts", "workers", "text"),
    [
        ([(NODE, 2)], 2, "No worker has the node class VHS_LoadVideo."),
        ([(NODE, 2), (MODEL, 2)], 2, "No worker has the node class VHS_LoadVideo or the model sd15.safetensors."),
        ([(NODE, 3), (MODEL, 1)], 3, "No worker has the node class VHS_LoadVideo."),
        (
            [(MODEL, 2), (NODE, 1)],
            3,
            "2 workers lack the model sd15.safetensors and 1 worker lacks the node class VHS_LoadVideo.",
        ),
        (
            [(Lack(kind="model_hash", name="a.ckpt"), 1)],
            1,
            "No worker has the model a.ckpt with the required hash.",
        ),
        ([(Lack(kind="engine_version", name=">=0.8"), 1)], 1, "No worker has an engine of version >=0.8."),
        ([], 1, "No worker has everything that the workflow requires."),
    ],
)
def test_a_sentence_names_the_missing_requirements(counts: list[tuple[Lack, int]], workers: int, text: str) -> None:
    assert missing_text(counts, workers) == text
