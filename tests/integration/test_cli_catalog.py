"""`callsheet workflows` and `callsheet effects`: from a ComfyUI export to something people can buy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from callsheet.catalog.effects import Effects
from callsheet.settings import Settings
from callsheet.wire.effects import EffectRecord, UpdateEffect
from tests.support.media.clips import make_clip
from tests.support.media.previews import image
from tests.support.media.sounds import sound
from tests.support.programs.commands import Callsheet

pytestmark = pytest.mark.usefixtures("installed_with_one_pool")

EXPORT: dict[str, Any] = {
    "6": {
        "class_type": "CLIPTextEncode",
        "inputs": {"text": "a cat", "clip": ["4", 1]},
        "_meta": {"title": "[b]Prompt"},
    },
    "4": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "sd15.safetensors"}},
    "8": {"class_type": "LoadImage", "inputs": {"image": "logo.png"}},
    "9": {"class_type": "SaveImage", "inputs": {"images": ["6", 0], "overlay": ["8", 0], "filename_prefix": "x"}},
    "10": {"class_type": "PreviewImage", "inputs": {"images": ["8", 0]}},
}


def export(tmp_path: Path, graph: Any = EXPORT, name: str = "My Cat (v2).json") -> str:
    file = tmp_path / name
    file.write_text(json.dumps(graph))
    return str(file)


async def audit_log(dsn: str) -> list[tuple[str, str]]:
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch("SELECT actor, action FROM audit_logs ORDER BY id")
    finally:
        await connection.close()
    return [(row["actor"], row["action"]) for row in rows]


async def test_an_export_becomes_a_workflow_and_an_effect_on_offer(
    callsheet: Callsheet, tmp_path: Path, dsn: str, installed: Settings
) -> None:
    before = len(await audit_log(dsn))
    file = export(tmp_path)
    shown = callsheet.succeed("workflows", "import", file, "--yes").out
    for line in (
        "6   CLIPTextEncode",
        "__INPUT_PATH__",
        "{{prompt}}",
        "node 9 (SaveImage) saves, as .png",
        "10 (Preview",
    ):
        assert " ".join(line.split()) in " ".join(shown.split())
    assert "[b]Prompt" in shown
    assert "Workflow my-cat-v2 was written" in shown

    found = callsheet.succeed("workflows", "show", "my-cat-v2", "--json").json
    assert (found["output_node_id"], found["output_extension"], found["output_mime_type"]) == ("9", "png", "image/png")
    assert found["graph"]["8"]["inputs"]["image"] == "__INPUT_PATH__"
    assert (installed.home / "storage").exists()
    assert "prompt" in callsheet.call("workflows", "show", "my-cat-v2").out
    listed = callsheet.call("workflows", "list").out
    assert "my-cat-v2" in listed
    assert "my-cat-v2" in [row["slug"] for row in callsheet.call("workflows", "list", "--json").json]

    made = callsheet.call(
        *("effects", "create", "cat", "--workflow", "my-cat-v2", "--name", "A cat", "--cost", "5"),
        *("--set", "prompt=a dog", "--description", "Cats."),
    )
    assert made.out == (
        "Effect cat of my-cat-v2 costs 5 tokens and is not published yet. "
        "To publish it, run: callsheet effects publish cat.\n"
    )
    assert callsheet.call("effects", "publish", "cat").out == "Effect cat is published and costs 5.\n"
    [effect] = [row for row in callsheet.call("effects", "list", "--json").json if row["slug"] == "cat"]
    assert (effect["is_published"], effect["overrides"], effect["credits_cost"]) == (True, {"prompt": "a dog"}, 5)
    assert "A cat" in callsheet.call("effects", "list").out
    assert callsheet.call("effects", "unpublish", "cat").out == "Effect cat is not published.\n"
    dog = ("effects", "create", "dog", "--workflow", "my-cat-v2")
    unpriced = callsheet.call(*dog, "--publish")
    assert unpriced.sentence == "Effect dog has no price. Add --cost TOKENS; --cost 0 makes it free."
    assert callsheet.call(*dog, "--json").json["is_published"] is False
    assert callsheet.call("effects", "publish", "dog").sentence == unpriced.sentence
    assert callsheet.call("effects", "publish", "dog", "--cost", "0").out == "Effect dog is published and costs 0.\n"

    assert (await audit_log(dsn))[before:] == [
        ("operator", "workflow.create"),
        ("operator", "effect.create"),
        ("operator", "effect.update"),
        ("operator", "effect.update"),
        ("operator", "effect.create"),
        ("operator", "effect.update"),
    ]


def test_an_import_names_the_command_that_creates_an_effect_with_a_price(callsheet: Callsheet, tmp_path: Path) -> None:
    shown = callsheet.succeed("workflows", "import", export(tmp_path, name="hinted.json"), "--yes").out
    hint = "Create an effect: callsheet effects create NAME --workflow hinted --cost TOKENS --publish"
    assert shown.splitlines()[-1] == hint
    command = hint.removeprefix("Create an effect: callsheet ").replace("NAME", "hinted").replace("TOKENS", "3")
    assert callsheet.succeed(*command.split()).out.startswith(
        "Effect hinted of hinted costs 3 tokens and is published."
    )


def test_warnings_are_printed_beside_the_result_of_a_command_that_succeeds(
    callsheet: Callsheet, tmp_path: Path
) -> None:
    callsheet.succeed("workflows", "import", export(tmp_path, name="warned.json"), "--yes")
    create = ("effects", "create", "--workflow", "warned", "--cost", "1")
    warned = callsheet.succeed(*create, "warned", "--provider", "clowd")
    assert warned.err == (
        "callsheet: warning: No worker serves the provider 'clowd': jobs of this effect wait until one registers.\n"
    )
    assert warned.out.startswith("Effect warned of warned costs 1 ")
    as_json = callsheet.succeed(*create, "warned-too", "--provider", "clowd", "--json")
    assert (as_json.err, len(as_json.json["warnings"])) == (warned.err, 1)
    assert callsheet.succeed(*create, "own").err == "", "workers with own engines are added later"


@pytest.mark.thorough
def test_at_a_terminal_the_price_of_an_effect_is_requested(callsheet: Callsheet, tmp_path: Path) -> None:
    callsheet.succeed("workflows", "import", export(tmp_path, name="asked.json"), "--yes")
    created = callsheet.at_terminal(*("effects", "create", "asked", "--workflow", "asked", "--publish"), typed="x\n7\n")
    assert created.code == 0, created.out
    assert created.out.count("Tokens that a job of asked costs (0 makes it free): ") == 2, "'x' is not a number"
    [effect] = [row for row in callsheet.call("effects", "list", "--json").json if row["slug"] == "asked"]
    assert (effect["is_published"], effect["credits_cost"]) == (True, 7)


LONG = "a-workflow-with-a-name-of-ordinary-length"


@pytest.mark.thorough
def test_lists_at_a_terminal_of_80_columns_do_not_break_ids_and_slugs(callsheet: Callsheet, tmp_path: Path) -> None:
    """An id that is broken into two lines cannot be copied."""
    callsheet.succeed("workflows", "import", export(tmp_path, name=f"{LONG}.json"), "--yes")
    create = ("effects", "create", f"{LONG}-effect", "--workflow", LONG, "--cost", "12")
    callsheet.succeed(*create, "--name", "An effect whose name has many words and is longer than one terminal line")
    callsheet.succeed("tenants", "create", "a-studio-with-a-long-name", "--name", "A studio with a name of many words")
    person = ("users", "create", "a.user.with.a.long.name@studio.example", "--tenant", "a-studio-with-a-long-name")
    callsheet.succeed(*person, "--password-stdin", input="a password that is long enough\n")
    for command in (("workflows", "list"), ("effects", "list"), ("tenants", "list"), ("users", "list")):
        listed = callsheet.call(*command, "--json").json
        shown = callsheet.at_terminal(*command)
        assert shown.code == 0, shown.out
        words = shown.out.split()
        kept = [row[name] for row in listed for name in ("id", "slug", "email") if isinstance(row.get(name), str)]
        assert kept
        assert [word for word in kept if word not in words] == [], shown.out


@pytest.mark.thorough
def test_a_concurrent_change_of_another_operator_is_not_overwritten(
    callsheet: Callsheet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callsheet.call("workflows", "import", export(tmp_path, name="raced.json"), "--yes").code == 0
    assert callsheet.call("effects", "create", "raced", "--workflow", "raced", "--set", "prompt=a dog").code == 0
    read = Effects.get

    async def get_then_lose(self: Effects, id_or_slug: str) -> EffectRecord:
        found = await read(self, id_or_slug)
        await self.update(id_or_slug, UpdateEffect(overrides={"prompt": "a cat"}), "another operator")
        return found

    with monkeypatch.context() as patched:
        patched.setattr(Effects, "get", get_then_lose)
        refused = callsheet.call("effects", "update", "raced", "--unset", "prompt").sentence
    assert "Another request changed the effect to version 2." in refused
    assert callsheet.call("effects", "show", "raced", "--json").json["overrides"] == {"prompt": "a cat"}


@pytest.mark.thorough
def test_effects_and_workflows_are_shown_changed_and_deleted(callsheet: Callsheet, tmp_path: Path) -> None:
    file = export(tmp_path, name="used.json")
    assert callsheet.call("workflows", "import", file, "--yes", "--json").json["slug"] == "used"
    made = ("effects", "create", "shown", "--workflow", "used", "--cost", "5", "--set", "prompt=a dog")
    assert callsheet.call(*made).code == 0
    assert callsheet.call("effects", "update", "shown").sentence.startswith("Nothing to change.")
    changed = callsheet.call("effects", "update", "shown", "--cost", "7", "--name", "Better", "--set", "prompt=a cat")
    assert changed.out == "Effect shown is changed: credits_cost, name, overrides.\n"
    shown = callsheet.call("effects", "show", "shown", "--json").json
    assert (shown["credits_cost"], shown["name"], shown["overrides"]) == (7, "Better", {"prompt": "a cat"})
    assert callsheet.call("effects", "update", "shown", "--unset", "prompt", "--json").json["overrides"] == {}
    printed = callsheet.call("effects", "show", "shown").out
    assert printed.startswith("shown: Better (not published)\n")
    assert ["cost", "7"] in [line.split() for line in printed.splitlines()]

    assert callsheet.call("workflows", "delete", "used").sentence == (
        "Nothing was deleted. Add --yes to delete workflow used."
    )
    refused = callsheet.call("workflows", "delete", "used", "--yes").sentence
    assert refused == "Workflow used is active. Deactivate it first."
    assert callsheet.call("workflows", "deactivate", "used").out == "Workflow used is not active.\n"
    refused = callsheet.call("workflows", "delete", "used", "--yes").sentence
    assert refused == "Workflow used has effects. Delete them first, or leave it deactivated."
    assert callsheet.call("workflows", "activate", "used").out == "Workflow used is active.\n"
    assert callsheet.call("effects", "delete", "shown", "--yes").out == "Effect shown is deleted.\n"
    assert callsheet.call("effects", "show", "shown").sentence == "There is no effect 'shown'."
    assert callsheet.call("workflows", "deactivate", "used").code == 0
    assert callsheet.call("workflows", "delete", "used", "--yes").out == "Workflow used is deleted.\n"
    assert callsheet.call("workflows", "show", "used").sentence == "There is no workflow 'used'."


def test_without_the_option_yes_the_command_only_shows_its_plan(callsheet: Callsheet, tmp_path: Path) -> None:
    file = export(tmp_path, name="dry.json")
    shown = callsheet.call("workflows", "import", file)
    assert (shown.code, shown.err) == (1, "callsheet: Nothing was written. Add --yes to write it.\n")
    assert "{{prompt}}" in shown.out
    proposed = callsheet.call("workflows", "import", file, "--json", "--all").json
    assert [each["key"] for each in proposed["properties"]] == ["input", "prompt"]
    assert callsheet.call("workflows", "show", "dry").sentence == "There is no workflow 'dry'."


def test_options_override_the_proposal(callsheet: Callsheet, tmp_path: Path) -> None:
    options = ("--slug", "chosen", "--name", "Chosen", "--output-node", "4", "--extension", "webm", "--yes", "--json")
    made = callsheet.call("workflows", "import", export(tmp_path), *options).json
    assert (made["slug"], made["name"], made["output_node_id"]) == ("chosen", "Chosen", "4")
    assert (made["output_extension"], made["output_mime_type"]) == ("webm", "video/webm")


@pytest.mark.thorough
def test_importing_again_replaces_only_with_the_option_replace(callsheet: Callsheet, tmp_path: Path) -> None:
    file = export(tmp_path, name="again.json")
    first = callsheet.call("workflows", "import", file, "--replace", "--name", "Mine", "--yes", "--json").json
    assert callsheet.call("workflows", "import", file, "--yes", "--json").sentence == (
        "A workflow 'again' already exists. Change it with --replace, or choose another name with --slug."
    )
    changed = {**EXPORT, "4": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "new.safetensors"}}}
    export(tmp_path, changed, "again.json")
    second = callsheet.call("workflows", "import", file, "--replace", "--yes", "--json").json
    assert (second["id"], second["name"]) == (first["id"], "Mine")
    assert second["comfyui_workflow_path"] != first["comfyui_workflow_path"]


@pytest.mark.thorough
def test_a_workflow_may_deliver_everything_that_its_graph_saves(callsheet: Callsheet, tmp_path: Path) -> None:
    file = export(tmp_path, name="many.json")
    options = ("--all-outputs", "--run-limit", "77", "--yes")
    shown = callsheet.succeed("workflows", "import", file, *options).out
    assert "The result is everything that the graph saves.\n" in shown
    made = callsheet.call("workflows", "show", "many", "--json").json
    assert (made["output_node_id"], made["output_extension"], made["run_limit_seconds"]) == (None, "png", 77)
    printed = callsheet.call("workflows", "show", "many").out
    assert "Result: everything that the graph saves, .png, image/png\n" in printed
    assert "Longest run: 77 seconds\n" in printed

    one = callsheet.call("workflows", "update", "many", "--output-node", "10", "--run-limit", "88", "--json").json
    assert (one["output_node_id"], one["run_limit_seconds"]) == ("10", 88)
    # An import that says nothing of it leaves the limit as it is, and proposes the node.
    again = callsheet.call("workflows", "import", file, "--replace", "--yes", "--json").json
    assert (again["output_node_id"], again["run_limit_seconds"]) == ("9", 88)
    film = {**EXPORT, "12": {"class_type": "SaveVideo", "inputs": {"video": ["8", 0], "format": "auto"}}}
    options = ("--output-node", "9", "--replace", "--yes")
    assert callsheet.call("workflows", "import", export(tmp_path, film, "many.json"), *options).code == 0
    filmed = callsheet.call("workflows", "update", "many", "--output-node", "12", "--json").json
    assert (filmed["output_extension"], filmed["output_mime_type"]) == ("mp4", "video/mp4")
    assert (
        "The node '99' is not in the graph."
        in callsheet.call("workflows", "update", "many", "--output-node", "99").sentence
    )
    every = callsheet.call("workflows", "update", "many", "--all-outputs", "--extension", "webm", "--json").json
    assert (every["output_node_id"], every["output_mime_type"]) == (None, "video/webm")
    both = ("--all-outputs", "--output-node", "9")
    for command in (("workflows", "import", file), ("workflows", "update", "many")):
        assert callsheet.call(*command, *both).sentence == "--all-outputs cannot be combined with --output-node."


@pytest.mark.thorough
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_an_export_with_a_byte_order_mark_is_read(callsheet: Callsheet, tmp_path: Path, encoding: str) -> None:
    """As editors and shells on Windows write it."""
    file = tmp_path / f"marked-{encoding}.json"
    graph = {**EXPORT, "6": {**EXPORT["6"], "inputs": {"text": "eine Übung", "clip": ["4", 1]}}}
    file.write_text(json.dumps(graph, ensure_ascii=False), encoding)
    made = callsheet.call("workflows", "import", str(file), "--yes", "--json").json
    assert [each["default"] for each in made["properties"] if each["key"] == "prompt"] == ["eine Übung"]


def test_a_node_that_shows_a_text_makes_a_text(callsheet: Callsheet, tmp_path: Path) -> None:
    graph = {**EXPORT, "11": {"class_type": "PreviewAny", "inputs": {"source": ["6", 0]}}}
    file = export(tmp_path, graph, "caption.json")
    shown = callsheet.succeed("workflows", "import", file, "--output-node", "11", "--yes").out
    assert "The result is what node 11 (PreviewAny) shows, as .txt.\n" in shown
    made = callsheet.call("workflows", "show", "caption", "--json").json
    assert (made["output_extension"], made["output_mime_type"]) == ("txt", "text/plain")


def test_a_worker_with_a_wrong_engine_directory_is_refused_at_its_start(callsheet: Callsheet, tmp_path: Path) -> None:
    engine = tmp_path / "ComfyUI"
    worker = callsheet.having(ENGINE__DIRECTORY=str(engine), WORKER__SECRET="s" * 32)
    command = ("worker", "--fleet", "gpu", "--id", "gpu-1")
    advice = "Set CALLSHEET_ENGINE__DIRECTORY to ComfyUI's directory, the one with input and output in it."
    assert worker.call(*command).sentence == f"There is no directory {engine}. {advice}"
    engine.mkdir()
    assert worker.call(*command).sentence == f"{engine} has no directory input and no directory output in it. {advice}"


@pytest.mark.thorough
def test_a_workflow_keeps_the_metadata_of_its_results_on_request(callsheet: Callsheet, tmp_path: Path) -> None:
    file = export(tmp_path, name="tagged.json")
    assert callsheet.call("workflows", "import", file, "--yes", "--json").json["keep_metadata"] is False
    assert "Metadata of results: removed\n" in callsheet.call("workflows", "show", "tagged").out
    kept = callsheet.call("workflows", "update", "tagged", "--keep-metadata", "--name", "Tagged")
    assert kept.out == "Workflow tagged is changed: keep_metadata, name.\n"
    # An import that says nothing of it leaves it as it is.
    again = callsheet.call("workflows", "import", file, "--replace", "--yes", "--json").json
    assert (again["keep_metadata"], again["name"]) == (True, "Tagged")
    assert "Metadata of results: kept (it contains the graph)\n" in callsheet.call("workflows", "show", "tagged").out
    replaced = ("workflows", "import", file, "--replace", "--remove-metadata", "--yes", "--json")
    assert callsheet.call(*replaced).json["keep_metadata"] is False
    assert callsheet.call("workflows", "update", "tagged").sentence.startswith("Nothing to change.")
    assert callsheet.call("workflows", "update", "nope", "--keep-metadata").sentence == "There is no workflow 'nope'."
    new = ("workflows", "import", file, "--slug", "tagged-too", "--keep-metadata", "--yes", "--json")
    assert callsheet.call(*new).json["keep_metadata"] is True


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("graph", "words"),
    [
        ({"nodes": [{"id": 1}], "links": [], "version": 0.4}, "Export (API)"),
        ({}, "The graph has no nodes."),
        ([], "A workflow is an object of nodes."),
        ({"1": {"class_type": "A"}}, "graph.1.inputs: The value must be an object."),
        ({"1": {"class_type": "A", "inputs": {}}}, "Choose the node: --output-node ID"),
    ],
)
def test_a_file_that_is_not_an_api_export_is_refused_in_one_sentence(
    callsheet: Callsheet, tmp_path: Path, graph: Any, words: str
) -> None:
    assert words in callsheet.call("workflows", "import", export(tmp_path, graph, "bad.json"), "--yes").sentence


def test_a_saved_request_is_accepted_for_the_prompt_in_it(callsheet: Callsheet, tmp_path: Path) -> None:
    file = export(tmp_path, {"prompt": EXPORT, "client_id": "x"}, "request.json")
    assert callsheet.call("workflows", "import", file, "--yes", "--json").json["graph"].keys() == EXPORT.keys()


def test_errors_are_printed_as_one_sentence(callsheet: Callsheet, tmp_path: Path) -> None:
    file = export(tmp_path, name="mistakes.json")
    missing = callsheet.call("workflows", "import", str(tmp_path / "none.json")).sentence
    assert "cannot be read: No such file" in missing
    broken = tmp_path / "broken.json"
    for text, where in (("{", " (line 1, column 2)"), ("", " (it is empty)"), ("[" * 100_000, "")):
        broken.write_text(text)
        assert f"is not JSON{where}. Export it again" in callsheet.call("workflows", "import", str(broken)).sentence
    assert "slug is " in callsheet.call("workflows", "import", file, "--slug", "No Slug").sentence
    assert callsheet.call("workflows", "import", file, "--output-node", "77").sentence == (
        "There is no node '77' in this graph."
    )
    nameless = export(tmp_path, name="---.json")
    assert "--slug NAME" in callsheet.call("workflows", "import", nameless).sentence
    mismatch = callsheet.call("workflows", "import", file, "--mime-type", "video/mp4", "--yes").sentence
    assert "output_mime_type: Files that end in .png have the type image/png" in mismatch
    create = ("effects", "create", "bad", "--workflow")
    assert "There is no workflow 'nope'." in callsheet.call(*create, "nope").sentence
    assert "--set takes KEY=VALUE" in callsheet.call(*create, "nope", "--set", "x").sentence
    assert callsheet.call("effects", "publish", "nope").sentence == "There is no effect 'nope'."


@pytest.mark.thorough
def test_an_effect_is_shown_with_files(callsheet: Callsheet, tmp_path: Path) -> None:
    callsheet.succeed("workflows", "import", export(tmp_path), "--slug", "shown-file", "--yes")
    callsheet.succeed("effects", "create", "with-clip", "--workflow", "shown-file", "--category", "Cats")
    before, after = tmp_path / "before.png", tmp_path / "after.mp4"
    before.write_bytes(image(200, 100))
    make_clip(after, 6)
    callsheet.succeed("effects", "update", "with-clip", "--preview", str(after), "--before", str(before))
    shown = callsheet.succeed("effects", "show", "with-clip").out
    assert "video, before and after" in shown
    assert "Cats" in shown
    made = callsheet.succeed("effects", "show", "with-clip", "--json").json["preview"]
    assert (made["before"]["width"], made["after"]["width"]) == (200, 160)
    sound_file = tmp_path / "after.flac"
    sound_file.write_bytes(sound("flac"))
    callsheet.succeed("effects", "update", "with-clip", "--preview", str(sound_file))
    assert "preview   sound " in callsheet.succeed("effects", "show", "with-clip").out
    callsheet.succeed("effects", "update", "with-clip", "--no-preview")
    assert callsheet.succeed("effects", "show", "with-clip", "--json").json["preview"] is None


@pytest.mark.thorough
def test_a_file_that_cannot_be_a_preview_is_refused_with_the_reason(callsheet: Callsheet, tmp_path: Path) -> None:
    callsheet.succeed("workflows", "import", export(tmp_path), "--slug", "unshown", "--yes")
    callsheet.succeed("effects", "create", "unshown", "--workflow", "unshown")
    update = ("effects", "update", "unshown")
    text = tmp_path / "a.txt"
    text.write_text("no image")
    for arguments, reason in (
        (("--preview", str(text)), "not an image, a video or an audio file"),
        (("--preview", str(tmp_path / "none.png")), "cannot be read"),
        (("--preview", "01900000-0000-7000-8000-000000000000"), "There is no such job."),
        (("--preview", "01900000-0000-7000-8000-000000000000", "--before", str(text)), "Leave --before out"),
        (("--before", str(text)), "only with --preview"),
        (("--preview", str(text), "--no-preview"), "not with --no-preview"),
    ):
        assert reason in callsheet.call(*update, *arguments).sentence, arguments


def test_a_price_by_formula_is_checked_set_and_replaced(callsheet: Callsheet, tmp_path: Path) -> None:
    callsheet.succeed("workflows", "import", export(tmp_path, name="priced.json"), "--yes")
    create = ("effects", "create", "priced", "--workflow", "priced", "--publish")
    assert "Give either --cost" in callsheet.refuse(*create, "--price", "3", "--cost", "3")
    refused = callsheet.refuse(*create, "--price", "3 * width.meters")
    assert "The workflow has no property 'width'." in refused
    made = callsheet.succeed(*create, "--price", "3 * 2").out
    assert made.startswith("Effect priced of priced costs 6 tokens or more and is published.")
    assert "from 6" in callsheet.succeed("effects", "list").out
    assert "3 * 2" in callsheet.succeed("effects", "show", "priced").out
    callsheet.succeed("effects", "update", "priced", "--cost", "4")
    found = json.loads(callsheet.succeed("effects", "show", "priced", "--json").out)
    assert (found["credits_cost"], found["price_formula"]) == (4, "")
