"""Passwords, as far as no clock is needed."""

from __future__ import annotations

from callsheet.identity.access.passwords import UNKNOWN_USER_HASH, Passwords


async def test_verifying_an_unknown_user_costs_as_much_as_a_known_one() -> None:
    passwords = Passwords()
    # The same parameters, so the same work; and no password opens an account that does not exist.
    assert not passwords.needs_rehash(UNKNOWN_USER_HASH)
    assert not await passwords.matches(None, "nobody has this password")
