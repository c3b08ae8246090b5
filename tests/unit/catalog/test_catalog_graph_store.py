"""Graphs in storage: the same graph is one object, and a graph that was read is cached."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from callsheet.catalog.graph_store import KEPT_GRAPHS, GraphStore
from callsheet.media.storage import LocalStorage
from callsheet.wire.errors import Unavailable
from tests.support.http.catalog_api import GRAPH


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[LocalStorage]:
    opened = LocalStorage(
        tmp_path / "storage", public_url="http://localhost", secret=b"s" * 32, url_seconds=60, max_upload_bytes=10**6
    )
    yield opened
    await opened.close()


async def test_the_same_graph_is_one_object_and_comes_back_as_it_was(storage: LocalStorage) -> None:
    store = GraphStore(storage)
    odd = {"1": {"class_type": "Ärger", "inputs": {"text": '"}\\ ☃', "n": 2**70, "f": 0.1}}}
    key = await store.write("x", odd)
    assert await store.write("x", dict(odd)) == key != await store.write("x", GRAPH)
    assert await GraphStore(storage).read(key) == odd


async def test_a_slug_of_any_kind_makes_a_key(storage: LocalStorage) -> None:
    for slug in ("actor:echo", "a" + "b_." * 42):
        key = await GraphStore(storage).write(slug, GRAPH)
        assert await GraphStore(storage).read(key) == GRAPH


async def test_the_cache_evicts_the_least_recently_used_graph(storage: LocalStorage) -> None:
    store = GraphStore(storage)
    keys = [await store.write(f"w-{number}", GRAPH) for number in range(KEPT_GRAPHS + 1)]
    for key in keys[:-1]:
        await store.read(key)
    await store.read(keys[0])
    await store.read(keys[-1])
    await storage.delete_many(keys)
    assert await store.read(keys[0]) == GRAPH
    with pytest.raises(Unavailable, match="no longer in storage"):
        await store.read(keys[1])
