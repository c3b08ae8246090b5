"""Opens the rooms of this installation for commands that work on its databases."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from callsheet.settings import load_settings

if TYPE_CHECKING:
    from callsheet.app.rooms import Rooms

Result = TypeVar("Result")


def with_rooms(work: Callable[[Rooms], Awaitable[Result]]) -> Result:
    return asyncio.run(_open_for(work))


async def _open_for(work: Callable[[Rooms], Awaitable[Result]]) -> Result:
    from callsheet.app.rooms import open_installation_rooms

    async with open_installation_rooms(load_settings()) as rooms:
        return await work(rooms)
