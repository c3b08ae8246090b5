"""Where storage may redirect a client with a signed URL."""

from __future__ import annotations

import httpx


class LedAstray(httpx.RequestError):
    """A redirect to where a signed URL has no business: a service of the own network, or out of encryption."""


async def refuse_astray(response: httpx.Response) -> None:
    """A hook for clients that follow redirects. Storage services send to another region, over https; anything else
    stays at the host it was asked for."""
    if not response.has_redirect_location:
        return
    here, there = response.url, response.url.join(response.headers["location"])
    stays = there.host == here.host and here.scheme == there.scheme
    if there.scheme != "https" and not stays:
        raise LedAstray(f"{here.host} leads astray", request=response.request)
