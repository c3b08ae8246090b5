"""What pages of the web application may load, and from where. Pure."""

from __future__ import annotations

from urllib.parse import urlsplit

from callsheet.toolbox.addresses import is_loopback


def origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def is_other_name(host: str, public_url: str) -> bool:
    """Whether a browser on this machine asks by another of its names, `localhost` instead of `127.0.0.1`.

    Cookies and what storage allows are by name: a page that was loaded by the other one could upload nothing.
    """
    parts = urlsplit(public_url)
    try:
        asked = urlsplit(f"//{host}")
        is_same_port = asked.port == parts.port
    except ValueError:
        return False
    is_local = is_loopback(asked.hostname or "") and is_loopback(parts.hostname or "")
    return is_local and is_same_port and asked.hostname != parts.hostname


def content_security_policy(storage_url: str) -> str:
    """Scripts come from here alone and never from the page itself; media also from storage, which may be elsewhere.

    `data:` images are the previews that workers send; `blob:` is a file that a person has chosen and not sent yet.
    Inline styles are allowed because dialogs keep the page behind them from scrolling with one that is measured.
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
