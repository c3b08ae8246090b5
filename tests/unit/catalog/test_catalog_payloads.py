"""A job's values: defaults, then the effect's, then the user's; an error names its property."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import pytest

from callsheet.catalog.offers import EffectRecipe, Price
from callsheet.catalog.payloads import check_file, filled, resolve
from callsheet.catalog.pricing.prices import SentFile, price_of
from callsheet.media.files import ReadyFile
from callsheet.plumbing.http.problems import problem_response
from callsheet.toolbox.ids import uuid7
from callsheet.wire.catalog import Property
from callsheet.wire.errors import FileNotMeasured, InvalidRequest
from tests.support.effect_recipes import effect_recipe
from tests.support.http.catalog_api import GRAPH, PRIMARY, PROMPT, SEED, STRENGTH, STYLE, TILED, overlay

ASSET = uuid7()
NOTE = {"key": "note", "type": "text", "placeholder": "{{note}}", "user_configurable": True}


def recipe(overrides: dict[str, Any] | None = None, *more: dict[str, Any]) -> EffectRecipe:
    chosen = [PRIMARY, PROMPT, STYLE, SEED, STRENGTH, TILED, overlay(str(ASSET)), *more]
    return effect_recipe(*chosen, overrides=overrides or {})


def refused(overrides: dict[str, Any], given: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(InvalidRequest) as refusal:
        resolve(recipe(overrides), given)
    return {problem.field: problem.reason for problem in refusal.value.errors}


def test_each_layer_wins_over_the_one_below() -> None:
    overrides = {"style": "pastel", "seed": 99, "strength": 2}
    resolved = resolve(recipe(overrides), {"prompt": "a cat", "strength": 3.5})
    assert resolved.values == {
        "{{prompt}}": "a cat",
        "{{style}}": "pastel",
        "{{seed}}": 99,
        "{{strength}}": 3.5,
        "{{tiled}}": False,
    }
    assert (resolved.assets, resolved.user_files) == ({"overlay": ASSET}, {})


def test_a_files_value_is_an_asset_of_the_catalog_or_a_file_of_the_users() -> None:
    mine = uuid7()
    resolved = resolve(recipe(), {"prompt": "a cat", "overlay": str(mine)})
    assert (resolved.assets, resolved.user_files) == ({}, {"overlay": mine})
    other = uuid7()
    assert resolve(recipe({"overlay": str(other)}), {"prompt": ""}).assets == {"overlay": other}


def test_a_missing_text_is_empty_unless_it_is_required() -> None:
    assert resolve(recipe({}, NOTE), {"prompt": "x"}).values["{{note}}"] == ""
    assert refused({}, {}) == {"input_payload.prompt": "This field is required."}
    assert resolve(recipe({"prompt": "of the effect"}), {}).values["{{prompt}}"] == "of the effect"


def test_users_set_only_properties_they_may_set_and_every_mistake_is_named() -> None:
    given = {"seed": 1, "nothing": 1, "input": str(uuid7()), "strength": 11, "tiled": "yes", "style": "x", "prompt": 5}
    found = refused({}, given)
    assert found == {
        "input_payload.seed": "Users cannot set this property.",
        "input_payload.nothing": "This effect has no such property.",
        "input_payload.input": "This is the file that the effect works on. Send it as video_id or input_file_id.",
        "input_payload.strength": "The value must be 10 or less.",
        "input_payload.tiled": "The value must be true or false.",
        "input_payload.style": "The value must be one of: noir, pastel, 1920s.",
        "input_payload.prompt": "The value must be a text.",
    }


def test_the_graph_is_filled_with_typed_values_and_keeps_the_places_of_files() -> None:
    wanted = recipe()
    values = resolve(wanted, {"prompt": 'a "cat"}, {{style}}', "tiled": True, "strength": 2}).values
    graph = filled(wanted, GRAPH, values).graph
    assert graph["3"]["inputs"]["text"] == 'a "cat"}, {{style}}, in a noir look'
    sampler = graph["5"]["inputs"]
    assert (sampler["seed"], sampler["cfg"], sampler["tiled"], sampler["steps"]) == (7, 2, True, 20)
    assert (graph["1"], graph["2"], graph["4"], graph["9"]) == (GRAPH["1"], GRAPH["2"], GRAPH["4"], GRAPH["9"])


@pytest.mark.parametrize("text", ["__OVERLAY__", "x __INPUT_PATH__ y"])
def test_a_text_that_names_the_place_of_a_file_stays_a_text(text: str) -> None:
    wanted = recipe()
    graph, names = filled(wanted, GRAPH, resolve(wanted, {"prompt": text}).values)
    assert graph["3"]["inputs"]["text"] == f"{text}, in a noir look"
    assert (graph["1"]["inputs"]["file"], graph["2"]["inputs"]["image"]) == (
        names["__INPUT_PATH__"],
        names["__OVERLAY__"],
    )
    assert not any(name in text for name in names.values())


@dataclass(frozen=True, slots=True)
class Upload:
    id: UUID
    path: str
    name: str
    mime_type: str
    size: int
    sha256: str | None


@pytest.mark.parametrize(
    ("mime_type", "size", "seconds", "words"),
    [
        ("video/webm", 100, None, None),
        ("video/webm", 100, 10.4, None),
        ("image/png", 100, None, "The file must be a video, but it is image/png."),
        ("videos/x", 100, None, "The file must be a video"),
        ("video/mp4", 101, None, "The file has 101 bytes. The limit is 100."),
        ("video/mp4", 100, 10.6, "The video is 10.6 seconds long. The limit is 10."),
    ],
)
def test_a_file_of_another_kind_size_or_length_is_refused(
    mime_type: str, size: int, seconds: float | None, words: str | None
) -> None:
    primary = Property.model_validate({**PRIMARY, "limits": {"max_bytes": 100, "max_seconds": 10}})
    found = check_file("video_id", primary, Upload(uuid7(), "p", "n", mime_type, size, None), seconds)
    assert [problem.field for problem in found] == (["video_id"] if words else [])
    assert words is None or words in found[0].reason


@pytest.mark.parametrize(
    ("mime_type", "seconds", "words"),
    [
        ("audio/x-wav", 10.4, None),
        ("audio/mpeg", None, None),
        ("video/mp4", None, "The file must be an audio file, but it is video/mp4."),
        ("audio/flac", 10.6, "The audio file is 10.6 seconds long. The limit is 10."),
    ],
)
def test_a_sound_of_another_kind_or_length_is_refused(mime_type: str, seconds: float | None, words: str | None) -> None:
    limits = {"max_bytes": 100, "max_seconds": 10}
    wanted = Property.model_validate({"key": "voice", "type": "audio", "placeholder": "__VOICE__", "limits": limits})
    found = check_file("input_payload.voice", wanted, Upload(uuid7(), "p", "n", mime_type, 5, None), seconds)
    assert [problem.reason for problem in found] == ([words] if words else [])


def test_a_price_waits_until_the_file_that_decides_it_is_measured() -> None:
    priced = replace(recipe(), price=Price(1, "ceil(input.seconds) + input.megapixels / 2"))
    resolved = resolve(priced, {"prompt": "a cat"})
    file = ReadyFile(uuid7(), "a", "a.mp4", "video/mp4", 1, None, measured="pending")
    with pytest.raises(FileNotMeasured) as early:
        price_of(priced, resolved, {"input": SentFile("video_id", file)})
    response = problem_response(early.value)
    assert (response.status_code, response.headers["retry-after"]) == (503, "2")
    assert [each.field for each in early.value.errors] == ["video_id"]
    ready = replace(file, measured="ready", duration_seconds=2.0004, width=1920, height=1080)
    # 2 seconds to the thousandth, and half of 2.0736 megapixels.
    assert price_of(priced, resolved, {"input": SentFile("video_id", ready)}) == 4
    still = replace(ready, duration_seconds=None)
    with pytest.raises(InvalidRequest, match="video_id: The price depends on the seconds of this file, which are not"):
        price_of(priced, resolved, {"input": SentFile("video_id", still)})
