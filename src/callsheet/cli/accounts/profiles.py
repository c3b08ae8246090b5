"""`callsheet login`, `logout` and `profiles`: the control planes that you use from this machine."""

from __future__ import annotations

import asyncio
import getpass
import sys
from typing import TYPE_CHECKING

import typer

from callsheet.cli.shared.console import err, out, print_json, print_table
from callsheet.cli.shared.login import origin_of
from callsheet.cli.shared.profile_store import (
    DEFAULT,
    DEMO,
    Profile,
    chosen_profile,
    profiles_file,
    read_profiles,
    write_profiles,
)
from callsheet.settings import load_settings
from callsheet.toolbox.errors import OperatorError

if TYPE_CHECKING:
    from callsheet.wire.identity import Me

profiles = typer.Typer(help="The control planes that you use from this machine.", no_args_is_help=True)

NAME = typer.Argument(help="Name of the profile.")
AS_JSON = typer.Option(False, "--json", help="Print JSON.")
SHOWN_OF_A_KEY = 11


def login(
    url: str | None = typer.Argument(None, help="URL of the control plane. Default: the profile's, or client.url."),
    email: str | None = typer.Option(
        None, help="Sign in with this e-mail address and a password, and create an API key for this machine."
    ),
    key_stdin: bool = typer.Option(False, "--key-stdin", help="Read the API key from standard input."),
    password_stdin: bool = typer.Option(
        False, "--password-stdin", help="With --email: read the password from standard input."
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Log in to a control plane with an API key or a password, and save URL and key as a profile for later commands."""
    name = chosen_profile() or DEFAULT
    if name == DEMO:
        raise OperatorError("The profile demo is the demo's own. Choose another name: --profile NAME")
    address = _address(url, name)
    key = _read_key(key_stdin) if email is None else _create_key(address, email, password_stdin)
    me = asyncio.run(_signed_in(address, key))
    write_profiles(read_profiles().having(name, Profile(address, key)))
    if as_json:
        print_json({"profile": name, "url": address, "email": me.email, "role": me.role.value, "tenant": me.tenant})
    else:
        out.print(f"You are {me.email} ({me.role.value}) of {me.tenant} at {address}.")
        err.print(f"Saved as profile {name} in {profiles_file()}. Commands use it from now on.", style="dim")


def logout() -> None:
    """Remove a profile and its API key from this machine: that of --profile, otherwise the current one."""
    name = chosen_profile() or read_profiles().current
    if name is None:
        raise OperatorError("You are not logged in anywhere.")
    _remove(name)


@profiles.command("list")
def list_profiles(as_json: bool = AS_JSON) -> None:
    """List your profiles. The current one has a star."""
    kept = read_profiles()
    if as_json:
        print_json(
            [
                {"name": name, "url": each.url, "key": each.api_key[:SHOWN_OF_A_KEY], "current": name == kept.current}
                for name, each in kept.by_name.items()
            ]
        )
        return
    rows = [
        ("*" if name == kept.current else "", name, each.url, f"{each.api_key[:SHOWN_OF_A_KEY]}…")
        for name, each in kept.by_name.items()
    ]
    print_table(("", "name", "url", "key"), rows)


@profiles.command("use")
def use_profile(name: str = NAME) -> None:
    """Make a profile the current one."""
    changed = read_profiles().using(name)
    write_profiles(changed)
    out.print(f"Commands use profile {name} ({changed.get(name).url}) from now on.")


@profiles.command("remove")
def remove_profile(name: str = NAME) -> None:
    """Remove a profile and its API key from this machine."""
    _remove(name)


def _remove(name: str) -> None:
    kept = read_profiles()
    key = kept.get(name).api_key
    write_profiles(kept.without(name))
    out.print(f"Profile {name} is removed. Its API key stays valid until it is revoked: {key[:SHOWN_OF_A_KEY]}…")


def _address(url: str | None, name: str) -> str:
    """The URL, checked like its setting."""
    known = read_profiles().by_name.get(name)
    given = origin_of(url) if url else known.url if known is not None else None
    settings = load_settings(**({"client": {"url": given}} if given is not None else {}))
    return (settings.client.url or settings.public_url).rstrip("/")


def _create_key(url: str, email: str, from_stdin: bool) -> str:
    from callsheet.cli.shared.password_login import key_for

    if from_stdin:
        password = sys.stdin.readline().rstrip("\n")
    elif sys.stdin.isatty():
        password = getpass.getpass("Password: ")
    else:
        raise OperatorError(
            "There is no terminal to ask for the password. Send it to standard input with --password-stdin."
        )
    return key_for(url, email, password)


def _read_key(from_stdin: bool) -> str:
    if from_stdin:
        key = sys.stdin.readline().strip()
    elif sys.stdin.isatty():
        key = getpass.getpass("API key: ").strip()
    else:
        raise OperatorError("There is no terminal to ask for the API key. Send it to standard input with --key-stdin.")
    if not key:
        raise OperatorError(
            "No API key was given. `callsheet login --email EMAIL` creates one with your password, and `callsheet keys "
            "create --user EMAIL` on the control plane."
        )
    settings = load_settings(client={"api_key": key}).client
    assert settings.api_key is not None
    return settings.api_key.get_secret_value()


async def _signed_in(url: str, key: str) -> Me:
    from callsheet.cli.shared.operations_client import OperationsClient

    async with OperationsClient(url, key) as client:
        return await client.me()
