"""Submits a job once to a provider that calls back. If an earlier attempt may have reached the provider, its job is
searched first.
"""

from __future__ import annotations

import asyncio

from callsheet.providers.media import Callback, Generation, Prediction, WebhookProvider


async def found_or_submitted(provider: WebhookProvider, generation: Generation, callback: Callback) -> Prediction:
    """Finds or submits the prediction. This finishes even if the task is canceled: half-way it is not known whether
    the provider has the job, which costs money. The worker waits only a few seconds for a canceled task.
    """
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
