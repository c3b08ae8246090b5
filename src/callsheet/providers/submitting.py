"""Submitting to a provider that calls back, once: looked for first where an earlier attempt may have reached it."""

from __future__ import annotations

import asyncio

from callsheet.providers.media import Callback, Generation, Prediction, WebhookProvider


async def found_or_submitted(provider: WebhookProvider, generation: Generation, callback: Callback) -> Prediction:
    """Finishes also where the task is stopped meanwhile: half way it is not known whether the provider has it, and
    what it has is paid for. The code that stopped the task gives up waiting sooner or later."""
    found = await provider.find(callback) if callback.may_exist else None
    if found is not None:
        return found
    call = asyncio.ensure_future(provider.submit(generation, callback))
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        if call.cancelled():
            raise
        return await call
