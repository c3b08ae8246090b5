"""Limits where storage may redirect a client with a signed URL."""

from __future__ import annotations

import httpx


class RedirectNotAllowed(httpx.RequestError):
    """A redirect that a signed URL must not follow: to a service of the own network, or to an unencrypted URL."""


async def refuse_unsafe_redirect(response: httpx.Response) -> None:
    """The hook of clients with an event loop."""
    refuse_unsafe_redirect_now(response)


def refuse_unsafe_redirect_now(response: httpx.Response) -> None:
    """A hook for clients that follow redirects. Storage services redirect to another region over https. Any other
    redirect must stay at the requested host.
    """
    if not response.has_redirect_location:
        return
    here, there = response.url, response.url.join(response.headers["location"])
    stays = there.host == here.host and here.scheme == there.scheme
    if there.scheme != "https" and not stays:
        raise RedirectNotAllowed(f"{here.host} redirects to a URL that is not allowed", request=response.request)
