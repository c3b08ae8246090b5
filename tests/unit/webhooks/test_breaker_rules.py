"""The tenants for which a provider is paused: one tenant's failing payloads do not stop other tenants."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.webhooks.breaker_rules import Breaker, BreakerLimits, Call, after_failure

ANN, BOB, EVE = (UUID(int=number) for number in (1, 2, 3))
LIMITS = BreakerLimits(failures=3, pause_seconds=30, max_pause_seconds=100)


def failed(breaker: Breaker, *calls: tuple[UUID, int], several: bool = True) -> Breaker:
    for tenant_id, dispatch_id in calls:
        call = Call("replicate", tenant_id, dispatch_id, 1)
        breaker, _ = after_failure(breaker, call, LIMITS, several_tenants=several)
    return breaker


def test_failing_jobs_of_one_tenant_open_the_breaker_for_this_tenant() -> None:
    breaker = failed(Breaker(), (ANN, 1), (ANN, 2), (ANN, 3))
    assert (breaker.is_open, breaker.shut_for, breaker.failures) == (True, ANN, 3)
    assert breaker.concerns(ANN)
    assert not breaker.concerns(BOB)


def test_failing_jobs_of_two_tenants_open_the_breaker_for_all() -> None:
    breaker = failed(Breaker(), (ANN, 1), (ANN, 2), (BOB, 3))
    assert (breaker.is_open, breaker.shut_for) == (True, None)
    assert breaker.concerns(EVE)


def test_the_breaker_opens_for_all_if_there_is_only_one_tenant() -> None:
    breaker = failed(Breaker(), (ANN, 1), (ANN, 2), (ANN, 3), several=False)
    assert (breaker.is_open, breaker.shut_for) == (True, None)


def test_a_job_that_is_tried_again_and_again_counts_once() -> None:
    breaker = failed(Breaker(), *[(ANN, 1)] * 10)
    assert (breaker.is_open, breaker.failures) == (False, 1)


def test_a_failure_of_another_tenant_opens_the_breaker_for_all() -> None:
    shut = failed(Breaker(), (ANN, 1), (ANN, 2), (ANN, 3))
    wide = failed(shut, (BOB, 4))
    assert (wide.shut_for, wide.pause_seconds) == (None, shut.pause_seconds)


def test_calls_from_before_the_breaker_opened_change_nothing() -> None:
    shut = failed(Breaker(), (ANN, 1), (ANN, 2), (ANN, 3))
    assert failed(shut, (ANN, 4)) == shut


@pytest.mark.parametrize(("several", "shut_for"), [(True, EVE), (False, None)])
def test_a_failed_trial_affects_only_its_own_tenant(several: bool, shut_for: UUID | None) -> None:
    """Else one tenant whose jobs always fail could hold up all others for ever, once all were held up."""
    half_open = replace(failed(Breaker(), (ANN, 1), (BOB, 2), (BOB, 3)), trial=(9, 1))
    again, begins = after_failure(half_open, Call("replicate", EVE, 9, 1), LIMITS, several_tenants=several)
    assert (begins, again.shut_for, again.trial, again.pause_seconds) == (True, shut_for, None, 60)
    longest, _ = after_failure(
        replace(again, trial=(9, 2)), Call("replicate", EVE, 9, 2), LIMITS, several_tenants=several
    )
    assert longest.pause_seconds == 100


@given(st.lists(st.integers(min_value=1, max_value=30), max_size=60), st.booleans())
def test_failures_of_one_tenant_in_any_order_do_not_affect_another(dispatches: list[int], tries: bool) -> None:
    breaker = Breaker()
    for dispatch_id in dispatches:
        if tries and breaker.is_open:
            breaker = replace(breaker, trial=(dispatch_id, 1))
        breaker = failed(breaker, (EVE, dispatch_id))
        assert not breaker.concerns(ANN)
