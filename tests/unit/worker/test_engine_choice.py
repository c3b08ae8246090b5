"""A job goes to an idle engine, and among idle ones to the one that has its models loaded."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from unittest.mock import Mock

import pytest

from callsheet.providers.engine import EngineError, EngineUnreachable
from callsheet.worker.agent.agent import names_of
from callsheet.worker.engines.engine_choice import EngineState, choose_engine, loaded_by
from callsheet.worker.engines.engines import DrivenEngine, Engines

SDXL, FLUX = frozenset({"sdxl.safetensors"}), frozenset({"flux.gguf", "ae.safetensors"})


def chosen(engines: Sequence[EngineState], wanted: frozenset[str] = SDXL) -> str | None:
    found = choose_engine(engines, wanted)
    return None if found is None else found.name


@pytest.mark.parametrize(
    ("engines", "expected"),
    [
        ([], None),
        ([EngineState("a", 1, 1), EngineState("b", 0, 0)], None),
        ([EngineState("a", 1, 1), EngineState("b", 1, 0)], "b"),
        # Idle comes before loaded: two jobs in one engine render one after the other.
        ([EngineState("a", 2, 1, SDXL), EngineState("b", 2, 0, FLUX)], "b"),
        ([EngineState("a", 1, 0, FLUX, 1.0), EngineState("b", 1, 0, SDXL, 9.0)], "b"),
        # What another engine has loaded is spared as long as one has nothing to lose.
        ([EngineState("a", 1, 0, FLUX, 0.0), EngineState("b", 1, 0)], "b"),
        ([EngineState("a", 1, 0, FLUX, 2.0), EngineState("b", 1, 0, FLUX, 1.0)], "b"),
    ],
    ids=["none", "all taken", "idle", "idle before loaded", "loaded", "fresh", "longest unused"],
)
def test_the_idle_engine_with_the_models_is_chosen(engines: list[EngineState], expected: str | None) -> None:
    assert chosen(engines) == expected
    assert chosen(engines[::-1]) == expected, "the order of the engines does not matter"


def test_model_files_of_a_graph_count_or_its_classes_if_it_has_none() -> None:
    graph = {
        "1": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "sdxl.safetensors"}},
        "2": {"class_type": "KSampler", "inputs": {"model": ["1", 0], "seed": 7, "sampler_name": "euler"}},
    }
    assert loaded_by(graph) == SDXL
    assert loaded_by({"2": graph["2"]}) == {"KSampler"}


def engines_with(*slots: int, provider: str = "self_hosted") -> tuple[Engines, list[DrivenEngine]]:
    """All of them well."""
    driven = [DrivenEngine(f"e{n}", Mock(provider=provider), count, 1.0, lambda: None) for n, count in enumerate(slots)]
    for each in driven:
        each.health.is_healthy = True
    return Engines(driven), driven


async def test_a_job_waits_for_the_first_engine_that_is_free_and_keeps_its_place_until_it_gives_it_back() -> None:
    engines, (first, second) = engines_with(1, 1)
    claims = [await engines.claim("self_hosted", SDXL) for _ in range(2)]
    assert {claim.driven for claim in claims} == {first, second}
    waiting = asyncio.create_task(engines.claim("self_hosted", SDXL))
    await asyncio.sleep(0)
    assert not waiting.done()
    claims[1].release()
    claims[1].release()  # twice is once
    assert (await waiting).driven is claims[1].driven
    assert (first.busy, second.busy) == (1, 1)


async def test_the_only_engine_is_given_at_once_and_its_place_later() -> None:
    engines, (only,) = engines_with(1)
    running, ahead = [await engines.claim("self_hosted", SDXL) for _ in range(2)]
    await running.hold()
    assert ahead.driven is only
    holding = asyncio.create_task(ahead.hold())
    await asyncio.sleep(0)
    assert not holding.done()
    running.release()
    await holding
    assert only.busy == 1


async def test_a_claim_that_is_cancelled_takes_no_place() -> None:
    engines, (first, second) = engines_with(1, 1)
    claims = [await engines.claim("self_hosted", SDXL) for _ in range(2)]
    in_vain = asyncio.create_task(engines.claim("self_hosted", SDXL))
    await asyncio.sleep(0)
    claims[0].release()
    # It has the place, and does not know it yet.
    in_vain.cancel()
    with pytest.raises(asyncio.CancelledError):
        await in_vain
    assert first.busy + second.busy == 1


async def test_each_place_has_a_next_job_that_moves_when_its_engine_fails() -> None:
    engines, (first, second, third) = engines_with(1, 1, 1)
    claims = [await engines.claim("self_hosted", SDXL) for _ in range(3)]
    ahead = [asyncio.create_task(engines.claim("self_hosted", SDXL)) for _ in range(3)]
    await asyncio.sleep(0)
    assert not any(each.done() for each in ahead)
    third.health.is_healthy = False
    engines.serve()
    with pytest.raises(EngineUnreachable):
        await ahead.pop()
    assert not any(each.done() for each in ahead), "those that came first wait on"
    assert (engines.capacity, engines.all_slots, engines.slots) == (2, 3, {"self_hosted": 2})
    first.health.is_healthy = second.health.is_healthy = False
    engines.serve()
    for each in ahead:
        with pytest.raises(EngineUnreachable):
            await each
    assert engines.providers == []
    for claim in claims:
        claim.release()


async def test_a_resting_engine_finishes_and_gets_no_further_job() -> None:
    engines, (first, second) = engines_with(1, 1)
    first.rest(True)
    assert (engines.capacity, (await engines.claim("self_hosted", SDXL)).driven) == (1, second)
    first.rest(False)
    assert (await engines.claim("self_hosted", SDXL)).driven is first


async def test_an_unknown_provider_is_an_error_of_the_job() -> None:
    engines, _ = engines_with(1)
    with pytest.raises(EngineError, match="no engine for 'cloud'"):
        await engines.claim("cloud", SDXL)


def test_engines_are_numbered_where_a_provider_has_several() -> None:
    assert names_of([Mock(provider="self_hosted")]) == ["self_hosted"]
    several = [Mock(provider=each) for each in ("self_hosted", "self_hosted", "cloud")]
    assert names_of(several) == ["self_hosted-1", "self_hosted-2", "cloud"]
