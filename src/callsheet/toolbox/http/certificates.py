"""The certificate authorities that outgoing connections trust."""

from __future__ import annotations

import ssl
from functools import cache

import httpx


@cache
def certificates() -> ssl.SSLContext:
    """The trusted certificates, shared by all clients of the process: reading them takes tens of milliseconds."""
    return httpx.create_ssl_context(trust_env=False)
