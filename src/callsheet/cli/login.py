"""Whom a command speaks to, and as whom: the settings, or else the demo on this machine."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from callsheet.settings import Settings
from callsheet.toolbox.errors import OperatorError


@dataclass(frozen=True, slots=True)
class Login:
    url: str
    api_key: str = field(repr=False)


def demo_login_file(settings: Settings) -> Path:
    return settings.home / "demo" / "login.json"


def read_demo_login(settings: Settings) -> Login | None:
    """None where no demo has run, or its file is not what a demo writes."""
    try:
        found = json.loads(demo_login_file(settings).read_text("utf-8"))
        return Login(str(found["url"]), str(found["api_key"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_demo_login(settings: Settings, login: Login) -> None:
    file = demo_login_file(settings)
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as written:
        json.dump({"url": login.url, "api_key": login.api_key}, written)
    part.replace(file)


def login_of(settings: Settings) -> Login:
    chosen = settings.client
    url = chosen.url.rstrip("/") if chosen.url is not None else None
    if chosen.api_key is not None:
        return Login(url or settings.public_url, chosen.api_key.get_secret_value())
    demo = read_demo_login(settings)
    # The demo's key goes to the demo and nowhere else.
    if demo is not None and url in (None, demo.url):
        return demo
    raise OperatorError(
        "This needs an API key: set CALLSHEET_CLIENT__API_KEY, and CALLSHEET_CLIENT__URL to the control plane's "
        "address. On the control plane `callsheet keys create --user EMAIL` makes a key."
    )
