"""Opens the catalog for the commands about workflows and effects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import typer

from callsheet.cli.shared.rooms import with_rooms

if TYPE_CHECKING:
    from callsheet.catalog.room import CatalogRoom

Result = TypeVar("Result")

AS_JSON = typer.Option(False, "--json", help="Print JSON.")
LISTED = 10_000


def with_catalog(work: Callable[[CatalogRoom], Awaitable[Result]]) -> Result:
    return with_rooms(lambda rooms: work(rooms.catalog))
