"""The content security policy of the web application. Pure."""

from __future__ import annotations

from urllib.parse import urlsplit

from callsheet.toolbox.http.addresses import is_loopback


def origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def is_other_name(host: str, public_url: str) -> bool:
    """Whether a browser on this machine uses another of its names, `localhost` instead of `127.0.0.1`.

    Cookies and the rules of storage depend on the name: a page that was loaded with the other name could upload
    nothing.
    """
    parts = urlsplit(public_url)
    try:
        requested = urlsplit(f"//{host}")
        is_same_port = requested.port == parts.port
    except ValueError:
        return False
    is_local = is_loopback(requested.hostname or "") and is_loopback(parts.hostname or "")
    return is_local and is_same_port and requested.hostname != parts.hostname


def content_security_policy(storage_url: str) -> str:
    """The policy. Scripts come from this server only, and never from the page itself. Media also come from storage,
    which may be another server. `data:` images are the previews that workers send. `blob:` is a file that a user has
    chosen but not sent yet. Inline styles are allowed, because dialogs use a computed one to stop the page behind
    them from scrolling.
    """
    storage = origin_of(storage_url)
    return "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self' 'unsafe-inline'",
            "font-src 'self'",
            f"img-src 'self' data: blob: {storage}",
            f"media-src 'self' blob: {storage}",
            f"connect-src 'self' {storage}",
            "manifest-src 'self'",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
        )
    )
