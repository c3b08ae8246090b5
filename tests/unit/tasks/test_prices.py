"""Prices of tasks: by action and provider, the same by every way, and never 0 by accident."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from pydantic import ValidationError

from callsheet.providers.actor import Plan
from callsheet.providers.config import ProvidersConfig
from callsheet.providers.registry import open_registry
from callsheet.settings import TaskSettings
from callsheet.tasks.prices import TaskPrices
from callsheet.wire.errors import InvalidRequest
from tests.support.http.actor_harness import ScriptedActor

MODELS = {name: {"model": "owner/model"} for name in ("static_ad", "flux")}
SERVICE = {
    "base_url": "https://service.test",
    "actions": {"txt2img": {"path": "/jobs", "id": "id"}},
    "poll": {"path": "/jobs/{id}", "status": "status", "done": ["done"], "outputs": "urls"},
}
PROVIDERS = {
    "replicate": {"token": "r8_test", "models": MODELS},
    "http": {"paid": SERVICE, "gratis": {**SERVICE, "free": True}},
    "lightbox": {"url": "http://127.0.0.1:1"},
}


@dataclass(frozen=True, slots=True)
class Case:
    costs: dict[str, int]
    actor: str
    provider: str
    action: str | None
    price: int | None


CASES = {
    "a typed job": Case({}, "static_ad", "replicate", "static_ad", 5),
    "its model through media": Case({}, "media", "replicate", "static_ad", 5),
    "a typed price of the operator's": Case({"static_ad": 8}, "media", "replicate", "static_ad", 8),
    "a price of the model, through media": Case({"replicate/static_ad": 9}, "media", "replicate", "static_ad", 9),
    "a price of the model, typed": Case({"replicate/static_ad": 9}, "static_ad", "replicate", "static_ad", 9),
    "every model leaves typed ones alone": Case({"replicate/*": 4}, "static_ad", "replicate", "static_ad", 5),
    "every model": Case({"replicate/*": 4}, "media", "replicate", "flux", 4),
    "one model before every model": Case({"replicate/*": 4, "replicate/flux": 3}, "media", "replicate", "flux", 3),
    "all media": Case({"media": 7}, "media", "replicate", "flux", 7),
    "one model before all media": Case({"media": 7, "replicate/flux": 3}, "media", "replicate", "flux", 3),
    "a paid model without a price": Case({}, "media", "replicate", "flux", None),
    "a paid service without a price": Case({}, "media", "paid", "txt2img", None),
    "free, because somebody wrote it": Case({"paid/txt2img": 0}, "media", "paid", "txt2img", 0),
    "a service that says that it is free": Case({}, "media", "gratis", "txt2img", 0),
    "an engine of our own": Case({}, "media", "lightbox", "txt2img", 0),
    "an engine of our own that is sold": Case({"lightbox/txt2img": 2}, "media", "lightbox", "txt2img", 2),
    "a paid actor of a package": Case({}, "writer", "self_hosted", None, None),
    "a priced actor of a package": Case({"writer": 6}, "writer", "self_hosted", None, 6),
    "a free actor of a package": Case({}, "counter", "self_hosted", None, 0),
    "a free actor that reaches a paid provider": Case({}, "counter", "replicate", None, None),
}


@pytest.mark.few_forms
@pytest.mark.parametrize("what", CASES)
async def test_a_task_costs_what_its_action_costs_by_every_way(what: str) -> None:
    case = CASES[what]
    registry = open_registry(ProvidersConfig.model_validate(PROVIDERS))
    actors = {**registry.actors, "writer": ScriptedActor("writer", paid=True), "counter": ScriptedActor("counter")}
    prices = TaskPrices(TaskSettings(costs=case.costs).costs, registry.media)
    plan = Plan(provider=case.provider, action=case.action)
    try:
        if case.price is None:
            with pytest.raises(InvalidRequest) as refused:
                prices.of(actors[case.actor], plan)
            name = f"{case.provider}/{case.action}" if case.action else case.actor
            assert f'"{name}" = 5. The price 0 makes it free.' in refused.value.errors[0].reason
        else:
            assert prices.of(actors[case.actor], plan) == case.price
    finally:
        await registry.close()


async def test_a_missing_price_is_known_before_a_job_is_submitted() -> None:
    registry = open_registry(ProvidersConfig.model_validate(PROVIDERS))
    actors = {**registry.actors, "writer": ScriptedActor("writer", paid=True)}
    try:
        missing = list(TaskPrices(TaskSettings().costs, registry.media).missing(actors, registry.media))
        assert missing == ["writer", "paid/txt2img", "replicate/flux"]
        priced = TaskSettings(costs={"writer": 1, "paid/*": 0, "replicate/*": 2})
        assert list(TaskPrices(priced.costs, registry.media).missing(actors, registry.media)) == []
    finally:
        await registry.close()


@pytest.mark.parametrize("name", ["Replicate", "replicate/", "replicate/flux/1", "/flux", "a b", ""])
def test_an_invalid_name_of_a_price_stops_the_start(name: str) -> None:
    with pytest.raises(ValidationError, match="must be an actor like copy"):
        TaskSettings(costs={name: 1})
