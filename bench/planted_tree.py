"""A run with a tree of any size, written in bulk: each candidate has a thumbnail of its own in storage."""

from __future__ import annotations

import asyncio
import colorsys
import io
from pathlib import Path
from uuid import UUID

import asyncpg
import httpx
from PIL import Image, ImageDraw

from bench.busy_demo import GRAPH
from callsheet.media.storage import LocalStorage
from callsheet.plumbing.embedded import EmbeddedPostgres

PER_BASE = 26
AT_ONCE = 64
SIZE = (256, 160)
MAX_CHECKS = 3000
SLUG = "planted"
# 26 candidates for each base: the base is the first, its children are 2, 7, 12, 17 and 22, each followed by its own.
CANDIDATES = """
INSERT INTO candidates (tenant_id, id, run_id, number, step_id, position, parent_id, job_id, output_index, file_id,
    seed, elo, votes, max_children, child_count, thumbnail_due_at, thumbnail_file_id)
SELECT r.tenant_id, md5(r.id::text || n)::uuid, r.id, n, s.id, place.position,
    CASE place.position WHEN 2 THEN md5(r.id::text || (n - place.within + 1))::uuid
        WHEN 3 THEN md5(r.id::text || (n - (place.within - 2) % 5))::uuid END,
    gen_random_uuid(), 0, gen_random_uuid(), n, 1000 + (n * 7919) % 200 - 100, n % 5,
    CASE place.position WHEN 3 THEN 0 ELSE 5 END, CASE place.position WHEN 1 THEN 5 WHEN 2 THEN 4 ELSE 0 END,
    NULL, md5('thumbnail' || r.id::text || n)::uuid
FROM pipeline_runs r
CROSS JOIN generate_series(1, $2::integer) n
CROSS JOIN LATERAL (
    SELECT (n - 1) % 26 + 1 AS within, CASE WHEN (n - 1) % 26 = 0 THEN 1
        WHEN ((n - 1) % 26 - 1) % 5 = 0 THEN 2 ELSE 3 END AS position
) place
JOIN pipeline_steps s ON s.tenant_id = r.tenant_id AND s.pipeline_id = r.pipeline_id
    AND s.version = r.pipeline_version AND s.position = place.position
WHERE r.id = $1
"""
FILES = """
INSERT INTO files (tenant_id, id, user_id, purpose, status, disk, path, name, mime_type, size, job_id, ready_at)
SELECT r.tenant_id, md5('thumbnail' || r.id::text || n)::uuid, r.user_id, 'output', 'ready', 'local',
    'tenants/' || r.tenant_id || '/runs/planted/' || n || '.webp', 'thumbnail.webp', 'image/webp', $3::bigint,
    gen_random_uuid(), now()
FROM pipeline_runs r CROSS JOIN generate_series(1, $2::integer) n
WHERE r.id = $1
"""
COUNT = "UPDATE pipeline_runs SET candidates = $2 WHERE id = $1 RETURNING tenant_id"


async def planted_run(client: httpx.AsyncClient, home: Path, bases: int) -> tuple[str, int]:
    """Starts a run that makes nothing, ends it, and writes its candidates: (id of the run, number of candidates).
    `client` is signed in as an operator."""
    run_id = await _empty_run(client)
    count = bases * PER_BASE
    server = await EmbeddedPostgres.start(home)
    try:
        connection = await asyncpg.connect(server.dsn("pool_1"))
        try:
            # Nothing made them, so they refer to jobs that do not exist.
            await connection.execute("SET session_replication_role = replica")
            await connection.execute(CANDIDATES, UUID(run_id), count)
            await connection.execute(FILES, UUID(run_id), count, len(_image(0)))
            tenant_id = await connection.fetchval(COUNT, UUID(run_id), count)
        finally:
            await connection.close()
    finally:
        await server.close()
    await _store(home, str(client.base_url), tenant_id, count)
    return run_id, count


async def _empty_run(client: httpx.AsyncClient) -> str:
    workflow = {"slug": SLUG, "name": SLUG, "graph": GRAPH, "output_node_id": "save", "output_extension": "png"}
    workflow |= {"output_mime_type": "image/png", "requirements": {"from_graph": False}}
    effect = {"slug": SLUG, "name": SLUG, "workflow": SLUG, "credits_cost": 1, "is_published": True}
    steps = [{"name": name, "workflow": SLUG, "max_children": 5} for name in ("Base", "Light", "Fine")]
    run = {"name": "Planted", "budget": 1000, "seed": 7, "target_leaves": 4000}
    for path, body in (
        ("/api/admin/workflows", workflow),
        ("/api/admin/effects", effect),
        ("/api/pipelines", {"slug": SLUG, "name": "Planted", "steps": steps}),
        (f"/api/pipelines/{SLUG}/runs", run),
    ):
        response = await client.post(path, json=body)
        response.raise_for_status()
    run_id = str(response.json()["id"])
    (await client.post(f"/api/runs/{run_id}/cancel")).raise_for_status()
    for _ in range(MAX_CHECKS):
        if not any(step["in_flight"] for step in (await client.get(f"/api/runs/{run_id}")).json()["steps"]):
            return run_id
        await asyncio.sleep(0.2)
    raise RuntimeError("The jobs of the canceled run did not end.")


async def _store(home: Path, url: str, tenant_id: UUID, count: int) -> None:
    storage = LocalStorage(
        home / "storage", public_url=url, secret=b"0" * 32, url_seconds=3600, max_upload_bytes=1_000_000
    )
    places = asyncio.Semaphore(AT_ONCE)

    async def put(number: int) -> None:
        async with places:
            key = f"tenants/{tenant_id}/runs/planted/{number}.webp"
            await storage.put(key, _image(number), content_type="image/webp")

    try:
        await asyncio.gather(*(put(number) for number in range(1, count + 1)))
    finally:
        await storage.close()


def _image(number: int) -> bytes:
    """All of the same size in bytes, as the rows of the files say: padded behind the end of the image."""
    red, green, blue = (int(255 * part) for part in colorsys.hsv_to_rgb(number * 0.61803 % 1, 0.55, 0.8))
    image = Image.new("RGB", SIZE, (red, green, blue))
    draw = ImageDraw.Draw(image)
    for line in range(12):
        left = (number * 37 + line * 53) % SIZE[0]
        draw.ellipse((left, line * 12, left + 60, line * 12 + 60), fill=(blue, (red + line * 20) % 256, green))
    content = io.BytesIO()
    image.save(content, "WEBP", quality=70)
    return content.getvalue().ljust(8192, b"\0")
