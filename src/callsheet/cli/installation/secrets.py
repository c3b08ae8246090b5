"""`callsheet secrets …`: the secret key of the installation, and its rotation."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import typer

from callsheet.cli.shared.console import out, print_json, require_consent
from callsheet.settings import Settings, load_settings
from callsheet.toolbox.errors import OperatorError
from callsheet.toolbox.signing import masters
from callsheet.wire.plurals import counted

if TYPE_CHECKING:
    from callsheet.plumbing.installation.reseal import Seals

app = typer.Typer(help="The secret key: status, rotation and replacement.", no_args_is_help=True)

RESTART = "Restart every control plane on this data directory now; it accepts both keys."
LATER = (
    "When nothing depends on the old key any more, run `callsheet secrets finish`. Before that, give workers on this "
    "machine that use it the new secret (`callsheet fleets secret`), and wait until jobs at providers and signed URLs "
    "from before have ended."
)


@app.command()
def status(as_json: bool = typer.Option(False, "--json", help="Print JSON.")) -> None:
    """Show where the secret key comes from, whether it is being rotated, and which key seals the DSN of each pool."""
    report = asyncio.run(_status(_settings()))
    if as_json:
        print_json(report)
    else:
        for name, value in report.items():
            shown = ", ".join(value) or "none" if isinstance(value, list) else value
            out.print(f"{name}: {'none' if shown is None else shown}")


@app.command()
def rotate() -> None:
    """Rotate the secret key. The old key stays accepted until `callsheet secrets finish`.

    If the key is in the data directory, this command creates the new key. If the key is in the settings, it prints a
    new key and what to set. Run the command again when the new key is in use: it seals the DSNs of pools with that key.
    """
    for line in asyncio.run(_rotate(_settings())):
        out.print(line)


@app.command()
def finish() -> None:
    """End a rotation. The old key is no longer accepted."""
    out.print(asyncio.run(_finish(_settings())))


@app.command()
def reset(
    yes: bool = typer.Option(False, "--yes", "-y", help="Use the new key without confirmation."),
) -> None:
    """Replace a lost secret key: the key of this machine becomes the key of the installation.

    If this machine has no key, this command creates one. Everything that was derived from the lost key stops working.
    If you have the old key, run `callsheet secrets rotate` instead.
    """
    settings = _settings()
    question = "Replace the secret key of this installation? Signed URLs and sealed DSNs of the lost key stop working."
    require_consent(question, "changed", yes, "replace the key if it is really lost")
    for line in asyncio.run(_reset(settings)):
        out.print(line)


def _settings() -> Settings:
    """The settings of an existing installation. In a wrong directory, the error names the installation, not the key."""
    from callsheet.plumbing.installation.installation import require_installation

    settings = load_settings()
    asyncio.run(require_installation(settings))
    return settings


async def _reset(settings: Settings) -> list[str]:
    from callsheet.plumbing.database.database import connected
    from callsheet.plumbing.database.databases import CENTRAL, reached_central
    from callsheet.plumbing.installation.installation_key import record_key
    from callsheet.plumbing.installation.reseal import read_seals
    from callsheet.plumbing.installation.secrets import fingerprint, master_secret

    async with reached_central(settings) as dsn:
        master = master_secret(settings)
        async with connected(dsn, CENTRAL) as connection:
            await record_key(connection, master)
        lost = (await read_seals(dsn, master)).neither
    again = [
        f"The DSN of pool {name} was sealed with the lost key. Add it again: callsheet db add-pool {name} DSN"
        for name in lost
    ]
    return [
        f"The secret key of this installation is now {fingerprint(masters(master)[0])}.",
        *again,
        "Give every control plane this key, and restart them. Workers that used `callsheet fleets secret` need the new "
        "one; users of the web application reload their pages.",
    ]


async def _status(settings: Settings) -> dict[str, Any]:
    from callsheet.plumbing.installation.secrets import fingerprint, master_secret

    keys = masters(master_secret(settings, create=False))
    seals, expected = await _in_central(settings)
    return {
        "source": "settings" if settings.secret_key is not None else "data directory",
        "key": fingerprint(keys[0]),
        "second_key": fingerprint(keys[1]) if len(keys) > 1 else None,
        "installation_key": expected,
        "sealed_with_key": seals.first,
        "sealed_with_second_key": seals.second,
        "sealed_with_another_key": seals.neither,
    }


async def _rotate(settings: Settings) -> list[str]:
    from callsheet.plumbing.database.database import connected
    from callsheet.plumbing.database.databases import CENTRAL, reached_central
    from callsheet.plumbing.installation.installation_key import check_key, record_key
    from callsheet.plumbing.installation.reseal import reseal
    from callsheet.plumbing.installation.secrets import master_secret, new_key, replace_kept

    is_under_way = len(masters(master_secret(settings, create=False))) > 1
    if not is_under_way and settings.secret_key is not None:
        return [
            f"New key: {new_key()}",
            "1. Set CALLSHEET_SECOND_SECRET_KEY to the new key on every control plane, and restart them one by one.",
            "2. Set CALLSHEET_SECRET_KEY to the new key and CALLSHEET_SECOND_SECRET_KEY to the old one on every "
            "control plane, and restart them one by one.",
            "3. Run `callsheet secrets rotate` again with these two: it seals the DSNs of pools with the new key.",
            "4. When nothing depends on the old key any more, run `callsheet secrets finish`.",
        ]
    async with reached_central(settings) as dsn, connected(dsn, CENTRAL) as connection:
        await check_key(connection, settings)
        if not is_under_way:
            replace_kept(settings.home)
        master = master_secret(settings, create=False)
        resealed = await reseal(dsn, master)
        # From now on, control planes that have only the old key are refused when they start.
        await record_key(connection, master)
    lines = [f"DSNs sealed with the new key: {', '.join(resealed) or 'none was needed'}."]
    if not is_under_way:
        lines = ["The secret key was replaced; the old one is still accepted.", *lines, RESTART]
    return [*lines, LATER]


async def _finish(settings: Settings) -> str:
    from callsheet.plumbing.installation.secrets import fingerprint, forget_second, master_secret

    keys = masters(master_secret(settings, create=False))
    if len(keys) == 1:
        # A rotation may have been interrupted before the new key was created.
        forget_second(settings.home)
        return "No rotation is in progress."
    seals, expected = await _in_central(settings)
    if seals.second:
        raise OperatorError(
            f"The DSN of {', '.join(seals.second)} is sealed with the second key only. Run: callsheet secrets rotate"
        )
    if endpoints := await _endpoints_with(settings, fingerprint(keys[1])):
        raise OperatorError(
            f"The secrets of {counted(endpoints, 'webhook endpoint')} are sealed with the second key only. A control "
            "plane with both keys seals them again within a minute. Then run: callsheet secrets finish"
        )
    if expected not in (None, fingerprint(keys[0])):
        raise OperatorError("The second key is still the key of the installation. Run: callsheet secrets rotate")
    if settings.second_secret_key is not None:
        return (
            "Nothing is sealed with the second key. Remove CALLSHEET_SECOND_SECRET_KEY and restart the control planes."
        )
    forget_second(settings.home)
    return "The old key was removed. Restart the control planes."


async def _endpoints_with(settings: Settings, key: str) -> int:
    """The number of webhook endpoints whose secrets are sealed with the key of this fingerprint."""
    from callsheet.app.rooms import open_installation_rooms
    from callsheet.deliveries.keeper import endpoints_sealed_with

    async with open_installation_rooms(settings) as rooms:
        return await endpoints_sealed_with(rooms.databases, key)


async def _in_central(settings: Settings) -> tuple[Seals, str | None]:
    """Which key seals which DSN, and the fingerprint of the installation's key."""
    from callsheet.plumbing.database.database import connected
    from callsheet.plumbing.database.databases import CENTRAL, reached_central
    from callsheet.plumbing.installation.installation_key import read_fingerprint
    from callsheet.plumbing.installation.reseal import read_seals
    from callsheet.plumbing.installation.secrets import master_secret

    async with reached_central(settings) as dsn, connected(dsn, CENTRAL) as connection:
        return await read_seals(dsn, master_secret(settings, create=False)), await read_fingerprint(connection)
