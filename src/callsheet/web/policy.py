"""What pages of the web application may load, and from where. Pure."""

from __future__ import annotations

from urllib.parse import urlsplit


def origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


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
