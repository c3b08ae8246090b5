"""What a call, a callback and the loop's tick cost does not grow with the calls that were ever made (G11).

Looked at as planned while the tables were empty, when they are full, and after they were analyzed, because plans are
kept for the life of a connection.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from hashlib import sha256

import pytest

from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import Connection
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.webhooks.breakers import SQL as BREAKERS
from callsheet.webhooks.gate import SQL as CALLS
from tests.support.database.full_databases import TENANT, fill_central, job_id, numbered, without_autovacuum
from tests.support.database.installation import opened
from tests.support.database.plans import Seen, explain, literal, pairs, prepare

pytestmark = pytest.mark.thorough

SQL = {**CALLS, **BREAKERS}
DISPATCHES, ENDED, OPEN = 20_000, 30_000, 300
WHENS = ("planned while empty", "planned when full", "analyzed")
BIG = {"ai_job_dispatches", "dispatch_history", "provider_calls", "provider_callbacks"}
TABLES = ("provider_breakers", *sorted(BIG))
PROVIDER = "replicate"


@dataclass(frozen=True, slots=True)
class Case:
    arguments: dict[str, object]
    max_buffers: int


def digest(number: int) -> str:
    return "\\x" + sha256(str(number).encode()).hexdigest()


CALL = {"call_id": ENDED + 7, "claims": 0}
ONE_CALL = {"provider": PROVIDER, "dispatch_id": 7, "lease_seq": 1}
CASES = {
    "record_intent": Case(
        {
            **ONE_CALL,
            "dispatch_id": ENDED + 7,
            "tenant_id": TENANT,
            "job_id": job_id(ENDED + 7),
            "charge_cycle": 1,
            "callback_hash": digest(ENDED + 7),
            "poll_seconds": 60,
        },
        30,
    ),
    "schedule_first_poll": Case({"dispatch_id": ENDED + 7, "poll_seconds": 60}, 30),
    "add_stray": Case({"dispatch_id": ENDED + 7, "provider_job_id": "stray"}, 40),
    "forget_strays": Case({"call_id": ENDED + 7, "strays": ["stray"]}, 30),
    "find_call": Case({"callback_hash": digest(ENDED + 7), "provider": PROVIDER}, 30),
    "record_refusal": Case({"call_id": ENDED + 7, "reason": "test"}, 30),
    "take_prediction": Case(
        {"call_id": ENDED + 7, "prediction": '{"id": "p"}', "delivery_id": "msg", "status": "succeeded"}, 60
    ),
    # As many rows as are waited for, here all of them to be canceled; not those that ended.
    "find_closed": Case({"providers": [PROVIDER], "limit": 500}, 32 * OPEN),
    "claim": Case(
        {
            "providers": [PROVIDER] * 3,
            "works": ["follow", "collect", "cancel"],
            "free": [8, 8, 8],
            "claim_seconds": 60,
        },
        600,
    ),
    "keep_claim": Case({**CALL, "held": "follow", "claim_seconds": 60}, 30),
    "postpone": Case({**CALL, "held": "follow", "work": "follow", "seconds": 1, "failures": 1, "error": None}, 30),
    "end_call": Case({"call_id": ENDED + 7, "error": None}, 30),
    "count_calls": Case({"providers": [PROVIDER]}, 4 * OPEN),
    # None is old enough here; else as many as are swept at once.
    "sweep_calls": Case({"days": 90, "limit": 1000}, 30),
    "paused_seconds": Case({"provider": PROVIDER, "tenant_id": TENANT}, 10),
    "paused_tenant": Case({"provider": PROVIDER}, 10),
    "lock_breaker": Case({"provider": PROVIDER}, 10),
    "take_trial": Case({**ONE_CALL, "trial_seconds": 60}, 20),
    "count_success": Case(ONE_CALL, 20),
    "create_breaker": Case({"provider": PROVIDER}, 20),
    "lock_breaker_state": Case({"provider": PROVIDER}, 20),
    "count_failure": Case(
        {
            "provider": PROVIDER,
            "failures": 6,
            "dispatches": [1, 2],
            "tenants": [TENANT],
            "pause_seconds": 30.0,
            "shut_for": TENANT,
            "begins": True,
            "error": "down",
        },
        20,
    ),
    "read_breakers": Case({"providers": [PROVIDER]}, 20),
    "reset_breaker": Case({"provider": PROVIDER}, 20),
}
FILL = f"""
INSERT INTO provider_calls (
    tenant_id, job_id, charge_cycle, dispatch_id, lease_seq, provider, callback_hash, work, next_at, ended_at)
SELECT '{TENANT}', {numbered("aaaaaaaa", "n")}, 1, n, 1, '{PROVIDER}',
    sha256(n::text::bytea), CASE WHEN n > {ENDED} THEN 'follow' END, CASE WHEN n > {ENDED} THEN now() END,
    CASE WHEN n <= {ENDED} THEN now() END
FROM generate_series(1, {ENDED + OPEN}) n;
INSERT INTO provider_callbacks (call_id, delivery_id, status, outcome)
SELECT n, 'msg', 'succeeded', 'taken' FROM generate_series(1, {ENDED}) n;
INSERT INTO provider_breakers (provider, failures, open_until, pause_seconds) VALUES ('{PROVIDER}', 5, now(), 30);
"""


def test_every_statement_has_a_plan_test() -> None:
    assert CASES.keys() == SQL.keys()


async def planned(connection: Connection) -> None:
    """The plans that are made now are kept."""
    for name, case in CASES.items():
        await prepare(connection, f"call_{name}", SQL[name].text)
        arguments = ", ".join(literal(case.arguments[parameter]) for parameter in SQL[name].parameters)
        await connection.execute(f"EXPLAIN EXECUTE call_{name}({arguments})")


async def measure(connection: Connection) -> dict[str, Seen]:
    seen = {}
    for name, case in CASES.items():
        transaction = connection.transaction()
        await transaction.start()
        arguments = [case.arguments[parameter] for parameter in SQL[name].parameters]
        seen[name] = await explain(connection, f"call_{name}", arguments)
        await transaction.rollback()
    return seen


async def observe_plans(databases: Databases) -> dict[tuple[str, str], Seen]:
    central, found = databases.central, {}
    await without_autovacuum(central, *TABLES)
    async with central.connection() as connection:
        await planned(connection)
        await fill_central(central, DISPATCHES)
        await connection.execute(FILL)
        for when in WHENS:
            if when != WHENS[0]:
                for name in CASES:
                    await connection.execute(f"DEALLOCATE call_{name}")
                if when == WHENS[2]:
                    await connection.execute("ANALYZE")
                await planned(connection)
            found |= {(when, name): one for name, one in (await measure(connection)).items()}
        for name in CASES:
            await connection.execute(f"DEALLOCATE call_{name}")
    return found


@pytest.fixture(scope="module")
async def seen(
    postgres: EmbeddedPostgres, templates_in_both_orders: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[dict[tuple[str, str], Seen]]:
    home = tmp_path_factory.mktemp("calls")
    async with opened(postgres, templates_in_both_orders, home) as databases:
        yield await observe_plans(databases)


@pytest.mark.parametrize(("name", "when"), pairs({name: SQL[name].text for name in CASES}, WHENS))
def test_g11_a_statement_about_calls_finds_its_rows_by_their_index(
    seen: dict[tuple[str, str], Seen], name: str, when: str
) -> None:
    one = seen[when, name]
    assert one.scanned & BIG == set()
    assert one.buffers <= CASES[name].max_buffers
