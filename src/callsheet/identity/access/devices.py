"""Finds the browser and the system in a User-Agent, so that a user recognizes a session. Pure."""

from __future__ import annotations

# The first match is used: Edge and Opera also contain Chrome, and Chrome also contains Safari.
_BROWSERS = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS", "Firefox"),
    ("CriOS", "Chrome"),
    ("HeadlessChrome", "Chrome"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
    ("curl/", "curl"),
    ("python-httpx", "Python"),
    ("callsheet", "callsheet"),
)
# Android also contains Linux, and an iPhone also contains Mac OS X.
_SYSTEMS = (
    ("Windows", "Windows"),
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Macintosh", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)


def device_of(user_agent: str | None) -> str | None:
    """The name of the device, or None if it is unknown. The text of the client is never shown."""
    sent = user_agent or ""
    browser = next((name for sign, name in _BROWSERS if sign in sent), None)
    system = next((name for sign, name in _SYSTEMS if sign in sent), None)
    return f"{browser} on {system}" if browser and system else browser or system
