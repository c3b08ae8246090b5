"""The certificate authorities that outgoing connections trust."""

from __future__ import annotations

import ssl
from functools import cache

import httpx


@cache
def certificates() -> ssl.SSLContext:
    """One for all clients of the process: reading it takes tens of milliseconds."""
    return httpx.create_ssl_context(trust_env=False)
