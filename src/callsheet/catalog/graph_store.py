"""Stores graphs in object storage, each under the hash of its bytes: the graph of a job is never overwritten."""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import Any

from callsheet.catalog.graphs import Graph
from callsheet.media.storage import Storage
from callsheet.toolbox.signing import sha256_hex
from callsheet.wire.errors import NotFound, Unavailable

FOLDER = "catalog/workflows"
# Four times the default limit of a request body. A graph of a thousand nodes has half a megabyte.
MAX_GRAPH_BYTES = 4 * 1024 * 1024
KEPT_GRAPHS = 64


def encoded(graph: Graph) -> bytes:
    return json.dumps(graph, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


class GraphStore:
    def __init__(self, storage: Storage):
        self._storage = storage
        # A key is never written twice with different bytes, so graphs can be cached.
        self._kept: OrderedDict[str, dict[str, Any]] = OrderedDict()

    async def write(self, slug: str, graph: Graph) -> str:
        """Stores a graph and returns its key. After a crash, the next attempt writes the same object again."""
        content = encoded(graph)
        # A slug may contain a colon and be longer than a segment of a key.
        key = f"{FOLDER}/{slug.replace(':', '=')[:100]}/{sha256_hex(content)}.json"
        await self._storage.put(key, content, content_type="application/json")
        return key

    async def read(self, key: str) -> dict[str, Any]:
        """The graph. The caller must not change it."""
        found = await self.find(key)
        if found is None:
            raise Unavailable("The graph of this workflow is no longer in storage. Save the workflow again.")
        return found

    async def find(self, key: str) -> dict[str, Any] | None:
        """The graph; None if it is not in storage."""
        found = self._kept.get(key)
        if found is None:
            try:
                found = json.loads(await self._storage.read(key, MAX_GRAPH_BYTES))
            except NotFound:
                return None
            self._kept[key] = found
            if len(self._kept) > KEPT_GRAPHS:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return found
