"""Submitting to a provider that calls back, once: looked for first where an earlier attempt may have reached it."""

from __future__ import annotations

import asyncio

from callsheet.providers.media import Callback, Generation, Prediction, WebhookProvider


async def found_or_submitted(provider: WebhookProvider, generation: Generation, callback: Callback) -> Prediction:
    """Finishes also if the task is cancelled meanwhile: half way it is not known whether the provider has the job,
    which is paid for. The worker waits only a few seconds for a cancelled task."""
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
