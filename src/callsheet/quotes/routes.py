"""`POST /api/quotes`: what a submit would cost, before it is sent."""

from __future__ import annotations

from fastapi import Depends

from callsheet.identity.access.authentication import Authentication
from callsheet.identity.access.principal import Principal
from callsheet.plumbing.http.routing import Router
from callsheet.quotes.quotes import Quotes
from callsheet.wire.money.quotes import Quote, QuoteRequest


def quote_router(quotes: Quotes, authentication: Authentication) -> Router:
    router = Router(prefix="/api/quotes", tags=["jobs"])

    @router.post("")
    async def quote_submit(body: QuoteRequest, principal: Principal = Depends(authentication.user)) -> Quote:
        """The price of a submit, the expected wait and run time, the limits that apply, and everything that is
        missing. Nothing is held or written: send the same body to the submit route to submit it. The quote of a batch
        has the price of all items together.
        """
        return await quotes.of(principal, body)

    return router
