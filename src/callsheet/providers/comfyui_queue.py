from __future__ import annotations

from collections.abc import Iterable

from callsheet.providers.context import Context
from callsheet.providers.media import MediaProvider


def configured(context: Context) -> Iterable[MediaProvider]:
    return ()
