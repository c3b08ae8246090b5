"""The versions of one workflow are found by their key, however many other workflows have (G11)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.embedded import EmbeddedPostgres
from tests.support.database.installation import opened
from tests.support.database.plans import explain, prepare
from tests.support.database.room_statements import statements_of_room
from tests.support.jobs.race_control import rolled_back_transaction

CATALOG = statements_of_room("catalog")

pytestmark = pytest.mark.thorough

FILL = """
    INSERT INTO workflows (slug, name) SELECT 'crowd-' || n, 'Crowd' FROM generate_series(1, 300) n;
    INSERT INTO workflow_versions (workflow_id, version, created_at, name, description, properties, output_extension,
        output_mime_type, keep_metadata, run_limit_seconds, refund_on_cancel, requirements)
    SELECT w.id, v, now(), 'Crowd', repeat('x', 500), '[]', 'png', 'image/png', false, 60, 'all', '{}'
    FROM workflows w CROSS JOIN generate_series(1, 200) v WHERE w.slug LIKE 'crowd-%';
    ANALYZE workflow_versions;
"""
CASES = {
    "list_versions": {"workflow_id": None, "before": None, "limit": 51},
    "find_version": {"workflow_id": None, "version": 150},
    "version_of_workflow": {"id": None},
}
MAX_BUFFERS = 40


@pytest.fixture(scope="module")
async def full_catalog(
    postgres: EmbeddedPostgres, templates: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Databases]:
    """Databases with many workflows, effects and assets."""
    async with opened(postgres, templates, tmp_path_factory.mktemp("crowd")) as databases:
        async with databases.central.connection() as connection:
            await connection.execute(FILL)
        yield databases


@pytest.mark.parametrize("name", CASES)
async def test_versions_are_read_by_their_key(full_catalog: Databases, name: str) -> None:
    async with rolled_back_transaction(full_catalog.central) as connection:
        workflow = await connection.fetchval("SELECT max(id) FROM workflows")
        given = {key: workflow if key in ("workflow_id", "id") else value for key, value in CASES[name].items()}
        await prepare(connection, name, CATALOG[name].text)
        seen = await explain(connection, name, [given[parameter] for parameter in CATALOG[name].parameters])
        assert "workflow_versions_pkey" in seen.indexes
        assert "workflow_versions" not in seen.scanned
        assert seen.buffers <= MAX_BUFFERS
