"""Tokens of leases are drawn together and are still ids like any other."""

from __future__ import annotations

from uuid import RFC_4122, UUID

from callsheet.dispatch.lease.taking import new_tokens


def test_no_two_tokens_are_alike_and_each_is_a_random_id() -> None:
    tokens = new_tokens(1000)
    assert len(set(tokens)) == 1000
    assert {(token.version, token.variant) for token in tokens} == {(4, RFC_4122)}
    assert {token == UUID(str(token)) for token in tokens} == {True}
    assert new_tokens(0) == []
