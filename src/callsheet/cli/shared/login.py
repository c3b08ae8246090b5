"""Finds the control plane and the user of a command.

The first of these that exists is used: the profile that `--profile` or CALLSHEET_PROFILE names; client.api_key of the
settings; the current profile; the demo of this directory. A key is only sent to the URL that it was created for.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from callsheet.cli.shared.command_tree import print_detail
from callsheet.cli.shared.profile_store import DEMO, chosen_profile, read_profiles
from callsheet.settings import Settings, file_of, is_found_here, load_settings
from callsheet.toolbox.errors import OperatorError
from callsheet.toolbox.http.addresses import is_loopback
from callsheet.toolbox.private_files import make_private


@dataclass(frozen=True, slots=True)
class Login:
    url: str
    api_key: str = field(repr=False)


def demo_login_file(settings: Settings) -> Path:
    return settings.home / "demo" / "login.json"


def read_demo_login(settings: Settings) -> Login | None:
    """The login of the demo. None if no demo has run, or if its file cannot be read."""
    try:
        found = json.loads(demo_login_file(settings).read_text("utf-8"))
        return Login(str(found["url"]), str(found["api_key"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_demo_login(settings: Settings, login: Login) -> None:
    _write_private(demo_login_file(settings), json.dumps({"url": login.url, "api_key": login.api_key}))


def demo_password_file(settings: Settings) -> Path:
    return settings.home / "demo" / "password"


def read_demo_password(settings: Settings) -> str | None:
    """The password that the demo generated. None if there is none."""
    try:
        return demo_password_file(settings).read_text("utf-8").strip() or None
    except (OSError, ValueError):
        return None


def write_demo_password(settings: Settings, password: str) -> None:
    _write_private(demo_password_file(settings), f"{password}\n")


def _write_private(file: Path, text: str) -> None:
    """Writes the file completely or not at all, readable only by this user from the first byte on."""
    make_private(file.parent.parent)
    make_private(file.parent)
    part = file.with_suffix(".part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as written:
        written.write(text)
    part.replace(file)


def origin_of(url: str) -> str:
    """The control plane of a URL that was copied from the address bar, such as http://host/operate/jobs?status=failed:
    a control plane has no path."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    is_page = parts.scheme in ("http", "https") and parts.netloc and (parts.path or parts.query or parts.fragment)
    return f"{parts.scheme}://{parts.netloc}" if is_page else url


def login_for(url: str | None) -> Login:
    """The login of a command whose option --url may name the control plane."""
    settings = load_settings(**({"client": {"url": origin_of(url)}} if url is not None else {}))
    return login_of(settings, is_url_named=url is not None)


def login_of(settings: Settings, *, is_url_named: bool = False) -> Login:
    url = settings.client.url.rstrip("/") if settings.client.url is not None else None
    name = chosen_profile()
    if name is not None:
        login = _named(settings, name)
        if url not in (None, login.url):
            raise OperatorError(f"Profile {name} is for {login.url}, not for {url}. Its API key is not sent elsewhere.")
        print_detail(f"Control plane: {login.url} (profile {name}).")
        return login
    if settings.client.api_key is not None:
        login = Login(url or settings.public_url, settings.client.api_key.get_secret_value())
        if not is_url_named:
            _refuse_to_be_led_away(settings, login.url)
        print_detail(f"Control plane: {login.url} (client.api_key in the settings).")
        return login
    for name, login in _kept(settings):
        if url in (None, login.url):
            print_detail(f"Control plane: {login.url} (profile {name}).")
            return login
    where = f" for {url}" if url is not None else ""
    raise OperatorError(
        f"This command needs an API key{where}. Log in: callsheet login {url or 'URL'}. Programs set "
        "CALLSHEET_CLIENT__URL and CALLSHEET_CLIENT__API_KEY. `callsheet keys create --user EMAIL` creates a key on "
        "the control plane."
    )


def _refuse_to_be_led_away(settings: Settings, url: str) -> None:
    """Refuses to send the user's own key to a URL that comes from a file of the working directory."""
    key_file = file_of(("client", "api_key"))
    if (key_file is not None and is_found_here(key_file)) or is_loopback(urlsplit(url).hostname or ""):
        return
    names = [("client", "url")] if settings.client.url is not None else [("server", "public_url"), ("server", "host")]
    for file in map(file_of, names):
        if file is not None and is_found_here(file):
            raise OperatorError(
                f"{file.absolute()} names the control plane {url}, and your API key comes from elsewhere. It is not "
                f"sent there without your consent: use --url {url}, or set CALLSHEET_CLIENT__URL beside the key."
            )


def _named(settings: Settings, name: str) -> Login:
    if name == DEMO and DEMO not in read_profiles().by_name:
        demo = read_demo_login(settings)
        if demo is None:
            raise OperatorError(f"There is no demo in {settings.home}. Start one: callsheet demo")
        return demo
    profile = read_profiles().get(name)
    return Login(profile.url, profile.api_key)


def _kept(settings: Settings) -> Iterator[tuple[str, Login]]:
    """The logins that were not named: the current one first, then those of other URLs for a command that names its
    URL.
    """
    kept = read_profiles()
    order = sorted(kept.by_name, key=lambda name: name != kept.current)
    for name in order:
        if name == kept.current or settings.client.url is not None:
            yield name, Login(kept.by_name[name].url, kept.by_name[name].api_key)
    demo = read_demo_login(settings)
    if demo is not None:
        yield DEMO, demo
