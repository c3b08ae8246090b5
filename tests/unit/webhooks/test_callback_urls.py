"""Callback URLs: the same for every attempt, another for every charge cycle, and impossible to guess."""

from __future__ import annotations

from uuid import uuid4

import pytest

from callsheet.dispatch.facts import JobCycle
from callsheet.toolbox.signing import KeyPair
from callsheet.webhooks.callback_urls import CallbackUrls, hash_of

SECRET = b"a secret of at least thirty-two bytes"
TENANT, JOB = uuid4(), uuid4()
CYCLE = JobCycle(TENANT, JOB, 1)


def test_the_url_is_the_same_wherever_it_is_derived() -> None:
    one, two = CallbackUrls(SECRET, "https://a.test"), CallbackUrls(SECRET, "https://a.test")
    known = hash_of(one.id_of(CYCLE))
    assert known is not None
    address = one.url_of("replicate", CYCLE, known)
    assert two.url_of("replicate", CYCLE, known) == address
    assert address == f"https://a.test/api/webhooks/replicate/{one.id_of(CYCLE)}"


def test_a_call_keeps_its_url_while_the_secret_is_rotated() -> None:
    old, new = CallbackUrls(SECRET, ""), CallbackUrls(KeyPair(b"another " + SECRET, SECRET), "")
    before, after = hash_of(old.id_of(CYCLE)), hash_of(new.id_of(CYCLE))
    assert before is not None
    assert after is not None
    # What was written down under the old key is called back there, what is written down now under the new one.
    assert new.url_of("replicate", CYCLE, before) == old.url_of("replicate", CYCLE, before)
    assert new.url_of("replicate", CYCLE, after).endswith(new.id_of(CYCLE))
    assert before != after


def test_every_cycle_job_tenant_and_installation_has_its_own_callback_url() -> None:
    addresses, others = CallbackUrls(SECRET, ""), CallbackUrls(SECRET[::-1], "")
    ids = {
        addresses.id_of(CYCLE),
        addresses.id_of(JobCycle(TENANT, JOB, 2)),
        addresses.id_of(JobCycle(TENANT, uuid4(), 1)),
        addresses.id_of(JobCycle(uuid4(), JOB, 1)),
        others.id_of(CYCLE),
    }
    assert len(ids) == 5
    assert all(hash_of(each) is not None for each in ids)


@pytest.mark.parametrize("text", ["", "a", "a" * 42, "a" * 44, "a" * 42 + "\n", "é" * 43, "a" * 42 + "/"])
def test_a_text_that_is_not_an_id_has_no_hash(text: str) -> None:
    assert hash_of(text) is None
