"""Quotes: what a submit of any kind would cost now, and what would refuse it. Nothing is held or written.

A quote builds the jobs with the code of the submit, and asks the database with the conditions of the submit. So the two
never differ for the same request at the same moment.
"""

from __future__ import annotations

from callsheet.identity.access.principal import Principal
from callsheet.quotes.quoted_batches import BatchQuotes
from callsheet.quotes.quoted_jobs import JobQuotes
from callsheet.quotes.quoted_runs import RunQuotes
from callsheet.wire.base import KeyedRequest
from callsheet.wire.effects import SubmitBatch
from callsheet.wire.errors import InvalidRequest
from callsheet.wire.money.quotes import Quote, QuoteRequest, QuoteRun


class Quotes:
    def __init__(self, jobs: JobQuotes, batches: BatchQuotes, runs: RunQuotes):
        self._jobs = jobs
        self._batches = batches
        self._runs = runs

    async def of(self, principal: Principal, wanted: QuoteRequest) -> Quote:
        name = _one_of(wanted)
        body: KeyedRequest = getattr(wanted, name)
        match body:
            case SubmitBatch():
                return await self._batches.of(principal, body)
            case QuoteRun():
                return await self._runs.of(principal, body)
        return await self._jobs.of(principal, name, body)


def _one_of(wanted: QuoteRequest) -> str:
    names = [name for name in QuoteRequest.model_fields if getattr(wanted, name) is not None]
    if len(names) != 1:
        offered = ", ".join(QuoteRequest.model_fields)
        field = names[1] if names else "effect"
        raise InvalidRequest.field(field, f"Send the body of exactly one submit, in one of: {offered}.")
    return names[0]
