"""Two requests with one Idempotency-Key arrive at two control planes at once: one of them is carried out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from fastapi import Request, Response

from callsheet.identity.access.kept_responses import ABANDONED, KeptResponses
from callsheet.identity.access.keys import Keys
from callsheet.identity.access.passwords import Passwords
from callsheet.identity.access.principal import Principal
from callsheet.identity.accounts.accounts import Accounts
from callsheet.identity.accounts.quotas import Quotas
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.failpoints import Failpoint
from callsheet.plumbing.http.once import KeptResponse, KeyedRequest, once
from callsheet.settings import QuotaSettings
from callsheet.wire.errors import RequestInProgress, ResponseNotKept
from callsheet.wire.identity import CreatedKey, CreateKeyRequest, Role
from tests.support.http.accounts import People, Person
from tests.support.jobs.race_control import paused_at, start_blocked

SECRET = b"the secret of this installation"
BODY = CreateKeyRequest(name="shop")
CLAIMED = """INSERT INTO kept_responses (caller_id, key_hash, claim_id, request)
             VALUES ($1, sha256('order-1'), gen_random_uuid(), 'not ours')"""
Create = Callable[[], Any]


def keys_of(databases: Databases) -> Keys:
    return Keys(databases, Quotas(databases, QuotaSettings()))


@pytest.fixture
async def ann(shared_databases: Databases) -> Person:
    return await People(Accounts(shared_databases, Passwords()), keys_of(shared_databases)).user()


@pytest.fixture
def planes(shared_databases: Databases, other_databases: Databases, ann: Person) -> list[Create]:
    """The request at each of two control planes. It creates an API key, which nothing but the header makes unique."""
    return [_creating(databases, ann) for databases in (shared_databases, other_databases)]


def _creating(databases: Databases, ann: Person) -> Create:
    async def create_key(body: CreateKeyRequest, principal: Principal) -> CreatedKey:
        return await keys_of(databases).create(principal.user_id, body)

    carried_out = once(create_key, 201, KeptResponses(databases, SECRET))
    request = Request({"type": "http", "method": "POST", "path": "/api/keys", "headers": [], "query_string": b""})
    principal = Principal(
        ann.user.id, ann.tenant.id, ann.tenant.slug, "pool_1", ann.user.email, "", Role.USER, "session"
    )

    async def create() -> Any:
        return await carried_out(keyed_request=request, idempotency_key="order-1", principal=principal, body=BODY)

    return create


async def created(databases: Databases, ann: Person) -> int:
    async with databases.central.connection() as connection:
        query = "SELECT count(*) FROM api_keys WHERE user_id = $1 AND name = 'shop'"
        return int(await connection.fetchval(query, ann.user.id))


async def test_g5_a_request_that_arrives_while_the_first_one_runs_creates_nothing(
    shared_databases: Databases, planes: list[Create], ann: Person
) -> None:
    one, two = planes
    async with paused_at(Failpoint.REQUEST_BEFORE_RESPONSE, one()) as first:
        with pytest.raises(RequestInProgress):
            await two()
    made = await first
    again = await two()
    assert isinstance(again, Response)
    assert again.headers["idempotent-replayed"] == "true"
    assert CreatedKey.model_validate_json(bytes(again.body)) == made
    assert await created(shared_databases, ann) == 1


async def test_g5_of_many_requests_at_once_one_is_carried_out(
    shared_databases: Databases, planes: list[Create], ann: Person
) -> None:
    results = await asyncio.gather(*(create() for create in planes * 10), return_exceptions=True)
    assert {type(each) for each in results} <= {CreatedKey, Response, RequestInProgress}
    assert [type(each) for each in results].count(CreatedKey) == 1
    assert await created(shared_databases, ann) == 1


async def test_g5_a_claim_that_is_not_committed_is_waited_for(
    shared_databases: Databases, other_databases: Databases, planes: list[Create], ann: Person
) -> None:
    async with other_databases.central.transaction() as connection:
        await connection.execute(CLAIMED, ann.user.id)
        [waiting] = await start_blocked(shared_databases.central, planes[0]())
    # This row was written with another secret, so it says only that there was a request.
    with pytest.raises(ResponseNotKept, match="The secret key of the installation was changed"):
        await waiting
    assert await created(shared_databases, ann) == 0


async def test_an_abandoned_key_is_taken_over_once_and_the_late_response_is_not_kept(
    shared_databases: Databases, other_databases: Databases, ann: Person
) -> None:
    one, two = KeptResponses(shared_databases, SECRET), KeptResponses(other_databases, SECRET)
    request = KeyedRequest(ann.user.id, "order-3", "POST /api/keys", {})

    async def be_silent() -> None:
        async with shared_databases.central.connection() as connection:
            query = "UPDATE kept_responses SET renewed_at = clock_timestamp() - $1::interval WHERE caller_id = $2"
            await connection.execute(query, ABANDONED, ann.user.id)

    slow = await one.claim(request)
    assert not isinstance(slow, KeptResponse)
    await be_silent()
    # A request that lives renews its claim.
    await slow.renew()
    with pytest.raises(RequestInProgress):
        await two.claim(request)
    await be_silent()
    claims = await asyncio.gather(one.claim(request), two.claim(request), return_exceptions=True)
    [taken] = [each for each in claims if not isinstance(each, BaseException)]
    assert not isinstance(taken, KeptResponse)
    await taken.keep(KeptResponse(201, "second"))
    await slow.renew()
    await slow.keep(KeptResponse(201, "first"))
    await slow.release()
    assert await two.claim(request) == KeptResponse(201, "second")
