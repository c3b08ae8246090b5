"""`callsheet workflows import --property …`: an operator chooses types, limits, choices and labels."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from callsheet.providers.comfy.node_forms import forms_of_object_info, packed
from tests.support.programs.commands import Callsheet

pytestmark = pytest.mark.usefixtures("installed_with_one_pool")

WORKER = """
INSERT INTO comfyui_workers (worker_id, registration_source, stage, session_id, token_hash, environment)
VALUES ('known', 'workflows', 'production', 1, sha256('known'), sha256('x'))
"""
GRAPH: dict[str, Any] = {
    "1": {"class_type": "LoadImage", "inputs": {"image": "a.png"}, "_meta": {"title": "Customer photo"}},
    "2": {
        "class_type": "PhotoFilter",
        "inputs": {"image": ["1", 0], "look": "noir", "amount": 3, "grain": True, "size": "{{size}}", "note": "x"},
    },
    "2:1": {"class_type": "CLIPTextEncode", "inputs": {"text": "a cat", "clip": ["4", 1]}},
    "4": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "sd15.safetensors"}},
    "9": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": "x"}},
}
INFO: dict[str, Any] = {
    "PhotoFilter": {
        "input": {
            "required": {
                "look": [["noir", "pastel"], {}],
                "amount": ["INT", {"default": 1, "min": 0, "max": 10}],
                "grain": ["BOOLEAN", {}],
                "size": ["FLOAT", {"default": 0.5, "min": 0.0, "max": 1.0}],
                "note": ["STRING", {}],
            }
        }
    }
}


def proposed(callsheet: Callsheet, tmp_path: Path, *options: str, graph: Any = GRAPH) -> dict[str, dict[str, Any]]:
    """The properties that an import would write, by key. They were checked."""
    result = callsheet.call("workflows", "import", export(tmp_path, graph), "--json", *options)
    assert result.out, result.err
    return {each["key"]: each for each in result.json["properties"]}


def refused(callsheet: Callsheet, tmp_path: Path, *options: str) -> str:
    return callsheet.call("workflows", "import", export(tmp_path, GRAPH), "--yes", *options).sentence


def export(tmp_path: Path, graph: Any) -> str:
    file = tmp_path / "filter.json"
    file.write_text(json.dumps(graph))
    return str(file)


def property_options(*options: str) -> list[str]:
    return [each for option in options for each in ("--property", option)]


def test_an_operator_makes_any_input_a_property(callsheet: Callsheet, tmp_path: Path) -> None:
    found = proposed(
        callsheet,
        tmp_path,
        *property_options(
            "2.amount",
            "2.look:choice,choices=noir|pastel|none,label=Look, of the photo,users=no",
            "2.grain,key=film_grain,description=Adds grain, as a film has",
            "2:1.text,max_length=200,label=Wish",
            "size:number,min=0.1,max=2,step=0.1,default=0.5",
        ),
    )
    chosen = {key: (each["type"], each["label"], each["default"]) for key, each in found.items()}
    assert chosen == {
        "input": ("image", "Customer photo", None),
        "size": ("number", "Size", 0.5),
        "text": ("text", "Wish", "a cat"),
        "amount": ("number", "Amount", 3),
        "look": ("choice", "Look, of the photo", "noir"),
        "film_grain": ("boolean", "Film grain", True),
    }
    assert found["look"]["limits"]["choices"] == ["noir", "pastel", "none"]
    assert (found["look"]["user_configurable"], found["amount"]["user_configurable"]) == (False, True)
    assert found["film_grain"]["description"] == "Adds grain, as a film has"
    limits = {name: found["size"]["limits"][name] for name in ("min", "max", "step")}
    assert limits == {"min": 0.1, "max": 2, "step": 0.1}
    assert found["text"]["limits"]["max_length"] == 200


def test_a_proposed_property_is_changed_by_its_key_or_left_out(callsheet: Callsheet, tmp_path: Path) -> None:
    found = proposed(callsheet, tmp_path, *property_options("prompt,label=Wish,required=yes", "1.image:fixed"))
    assert found.keys() == {"prompt", "size"}
    assert (found["prompt"]["label"], found["prompt"]["required"]) == ("Wish", True)
    found = proposed(callsheet, tmp_path, *property_options("2:1.text:choice,choices=a cat|a dog"))
    assert (found["text"]["type"], found["text"]["limits"]["choices"]) == ("choice", ["a cat", "a dog"])


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("7.steps", "there is no node '7' in this graph"),
        ("2.amout", "node 2 has no input 'amout'. Its inputs: image, look, amount, grain, size, note."),
        ("2.amount:integer", "'integer' is not a type. Types: text, number, boolean, choice,"),
        ("2.amount,minimum=3", "'amount,minimum=3'"),
        ("2.amount,label=x,minimum=3", "has an unknown setting. Settings: label,"),
        ("2.amount,min=low", "min must be a number, not 'low'."),
        ("2.amount,min=inf", "min must be a number, not 'inf'."),
        ("2.grain,users=maybe", "users must be yes or no, not 'maybe'."),
        ("2.grain:number", "the value in the graph, True, cannot be the default of a property of type number"),
        ("2.amount,key=1", "The key '1' must start with a letter"),
        ("2.amount,key=input", "There are two properties with the key 'input'."),
        ("nothing,min=1", "There is no property 'nothing'. Properties: input, size, prompt."),
        ("prompt:number", "The property 'prompt' has the type text. Name its input: 2:1.text."),
        ("2.amount,max=2", "The value must be 2 or less."),
        ("2.image", "the input is linked to another node"),
        ("9.filename_prefix:text", "which names a file"),
    ],
)
def test_a_property_that_cannot_be_made_is_refused_with_what_to_change(
    callsheet: Callsheet, tmp_path: Path, option: str, words: str
) -> None:
    assert words in refused(callsheet, tmp_path, "--property", option)


def test_an_input_is_chosen_once(callsheet: Callsheet, tmp_path: Path) -> None:
    assert "another --property names the same input" in refused(
        callsheet, tmp_path, *property_options("2.amount", "2.amount:number")
    )


async def test_the_command_takes_limits_from_online_workers_and_warns_of_what_they_lack(
    callsheet: Callsheet, tmp_path: Path, dsn: str
) -> None:
    shown = callsheet.call("workflows", "import", export(tmp_path, GRAPH)).out
    assert "No online worker reports what its nodes accept, so types and limits follow from the graph alone." in shown
    connection = await asyncpg.connect(dsn)
    try:
        inventory = json.dumps({"node_classes": [*INFO, "LoadImage", "SaveImage", "CLIPTextEncode"], "models": []})
        forms = base64.b64decode(packed(forms_of_object_info(INFO)) or "")
        await connection.execute(
            "INSERT INTO worker_environments (digest, inventory, node_forms) VALUES (sha256('x'), $1, $2)",
            inventory,
            forms,
        )
        await connection.execute(WORKER)
        options = ["--all", *property_options("2.note,users=no")]
        found = proposed(callsheet, tmp_path, *options)
        assert found.keys() == {"input", "size", "prompt", "note", "amount", "look", "grain"}
        assert (found["look"]["limits"]["choices"], found["amount"]["limits"]["max"]) == (["noir", "pastel"], 10)
        assert (found["size"]["type"], found["size"]["default"]) == ("number", 0.5)
        result = callsheet.call("workflows", "import", export(tmp_path, GRAPH), *options, "--yes")
        assert result.code == 0
        assert " ".join(result.err.split()) == (
            "callsheet: warning: No worker has the model sd15.safetensors or the node class CheckpointLoaderSimple. "
            "Its jobs wait until a worker can run it."
        )
        assert "noir | pastel" in result.out
        assert "0 to 10, whole" in result.out
    finally:
        await connection.execute("DELETE FROM comfyui_workers WHERE worker_id = 'known'")
        await connection.close()
