"""The Python client of Callsheet: docs/how-to/use-the-python-client.md. It needs no server part.

result = Callsheet(url, key).run("noir", video=Path("in.mp4"), strength=0.5)
result.save("out.mp4")
"""

from callsheet.client.batches import AsyncBatchHandle, BatchHandle
from callsheet.client.clients import AsyncCallsheet, Callsheet
from callsheet.client.errors import CallsheetError, JobNotCompleted, NotEnded, Refusal
from callsheet.client.jobs import AsyncJobHandle, AsyncResultFile, JobHandle, ResultFile
from callsheet.client.webhooks import WebhookRefused, verify

__all__ = [
    "AsyncBatchHandle",
    "AsyncCallsheet",
    "AsyncJobHandle",
    "AsyncResultFile",
    "BatchHandle",
    "Callsheet",
    "CallsheetError",
    "JobHandle",
    "JobNotCompleted",
    "NotEnded",
    "Refusal",
    "ResultFile",
    "WebhookRefused",
    "verify",
]
