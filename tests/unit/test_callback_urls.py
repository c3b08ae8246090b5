"""Callback URLs: the same for every attempt, another for every charge cycle, and impossible to guess."""

from __future__ import annotations

from uuid import uuid4

import pytest

from callsheet.toolbox.signing import KeyPair
from callsheet.webhooks.callback_urls import CallbackUrls, hash_of

SECRET = b"a secret of at least thirty-two bytes"
TENANT, JOB = uuid4(), uuid4()


def test_the_url_is_the_same_wherever_it_is_derived() -> None:
    one, two = CallbackUrls(SECRET, "https://a.test"), CallbackUrls(SECRET, "https://a.test")
    known = hash_of(one.id_of(TENANT, JOB, 1))
    assert known is not None
    address = one.url_of("replicate", TENANT, JOB, 1, known)
    assert two.url_of("replicate", TENANT, JOB, 1, known) == address
    assert address == f"https://a.test/api/webhooks/replicate/{one.id_of(TENANT, JOB, 1)}"


def test_a_call_keeps_its_url_while_the_secret_is_rotated() -> None:
    old, new = CallbackUrls(SECRET, ""), CallbackUrls(KeyPair(b"another " + SECRET, SECRET), "")
    before, after = hash_of(old.id_of(TENANT, JOB, 1)), hash_of(new.id_of(TENANT, JOB, 1))
    assert before is not None
    assert after is not None
    # What was written down under the old key is called back there, what is written down now under the new one.
    assert new.url_of("replicate", TENANT, JOB, 1, before) == old.url_of("replicate", TENANT, JOB, 1, before)
    assert new.url_of("replicate", TENANT, JOB, 1, after).endswith(new.id_of(TENANT, JOB, 1))
    assert before != after


def test_every_cycle_job_tenant_and_installation_has_its_own_callback_url() -> None:
    addresses, others = CallbackUrls(SECRET, ""), CallbackUrls(SECRET[::-1], "")
    ids = {
        addresses.id_of(TENANT, JOB, 1),
        addresses.id_of(TENANT, JOB, 2),
        addresses.id_of(TENANT, uuid4(), 1),
        addresses.id_of(uuid4(), JOB, 1),
        others.id_of(TENANT, JOB, 1),
    }
    assert len(ids) == 5
    assert all(hash_of(each) is not None for each in ids)


@pytest.mark.parametrize("text", ["", "a", "a" * 42, "a" * 44, "a" * 42 + "\n", "é" * 43, "a" * 42 + "/"])
def test_a_text_that_is_not_an_id_has_no_hash(text: str) -> None:
    assert hash_of(text) is None
