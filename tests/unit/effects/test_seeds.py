"""Seeds that a client leaves out are drawn, within the limits of the workflow."""

from __future__ import annotations

from typing import Any

import pytest

from callsheet.catalog.offers import EffectRecipe
from callsheet.catalog.payloads import resolve
from callsheet.effects.seeds import MAX_SEED, with_seeds
from tests.support.effect_recipes import effect_recipe

PROMPT = {"key": "prompt", "type": "text", "placeholder": "{{prompt}}", "user_configurable": True, "default": ""}


def seed(key: str = "seed", **changes: Any) -> dict[str, Any]:
    return {
        "key": key,
        "type": "number",
        "placeholder": f"__{key.upper()}__",
        "user_configurable": True,
        "default": 7,
        "limits": {"integer": True, "min": 0, "max": 2**63},
        **changes,
    }


def recipe(*properties: dict[str, Any], **overrides: Any) -> EffectRecipe:
    return effect_recipe(PROMPT, *properties, overrides=overrides)


def test_a_seed_that_is_left_out_is_drawn_each_time() -> None:
    sold = recipe(seed(), seed("noise_seed"))
    drawn = [with_seeds(sold, {"prompt": "a cat"}) for _ in range(20)]
    assert all(each.keys() == {"prompt", "seed", "noise_seed"} for each in drawn)
    assert len({each["seed"] for each in drawn}) == 20
    for each in drawn:
        assert set(resolve(sold, each).values.values()) >= {each["seed"], each["noise_seed"]}


def test_a_seed_of_the_client_or_of_the_effect_stays() -> None:
    assert with_seeds(recipe(seed()), {"seed": 5}) == {"seed": 5}
    assert with_seeds(recipe(seed(), seed=5), {}) == {}


@pytest.mark.parametrize(
    ("limits", "smallest", "largest"),
    [
        ({"integer": True}, 0, MAX_SEED),
        ({"integer": True, "min": 1, "max": 10}, 1, 10),
        ({"integer": True, "min": 3, "max": 3}, 3, 3),
        ({"integer": True, "min": 2, "max": 11, "step": 4}, 2, 10),
        ({"integer": True, "min": 0, "max": 2**64}, 0, 2**53 - 1),
        ({"min": 0.5, "max": 2.5}, 1, 2),
    ],
    ids=str,
)
def test_a_seed_is_drawn_within_the_limits(limits: dict[str, Any], smallest: int, largest: int) -> None:
    sold = recipe(seed(limits=limits))
    for draw, expected in ((lambda below: 0, smallest), (lambda below: below - 1, largest)):
        given = with_seeds(sold, {}, draw)
        assert given == {"seed": expected}
        assert resolve(sold, given).values["__SEED__"] == expected


@pytest.mark.parametrize(
    "other",
    [
        seed(user_configurable=False),
        seed("seedling"),
        seed("steps"),
        seed(limits={"min": 0.5, "max": 0.7}),
        seed(limits={"step": 0.5}),
    ],
    ids=str,
)
def test_nothing_else_is_drawn(other: dict[str, Any]) -> None:
    assert with_seeds(recipe(other), {}) == {}
