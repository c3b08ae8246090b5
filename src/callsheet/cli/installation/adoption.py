"""`callsheet db adopt` and `db repoint`: a person decides which databases belong together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import typer

from callsheet.cli.shared.console import err, moment, out, require_consent
from callsheet.settings import POOL_DSN_VARIABLE, Settings, given_pool_direct_dsn, given_pool_dsn, load_settings
from callsheet.toolbox.errors import OperatorError
from callsheet.wire.errors import Unavailable
from callsheet.wire.plurals import counted

if TYPE_CHECKING:
    from callsheet.media.storage import Storage
    from callsheet.operate.installation.pool_contents import PoolContents
    from callsheet.plumbing.database.adopt import Adoption

MEBIBYTE = 1 << 20


def adopt(
    pool: str | None = typer.Argument(
        None, help="Only this pool. Default: all pools, where central says that they are."
    ),
    dsn: str | None = typer.Argument(
        None,
        help="URL of the database that becomes the pool, without a password. Default: CALLSHEET_POOL_DSN in the "
        "environment, which may contain the password, otherwise where central says that the pool is.",
    ),
    yes: bool = typer.Option(False, "--yes", "-y", help="Attach the databases without confirmation."),
    retired: bool = typer.Option(
        False, "--retired", help="Also attach a database that another one replaced: what only that one has is lost."
    ),
    storage: bool = typer.Option(
        False, "--storage", help="Also take over the object storage: this installation may delete files there."
    ),
) -> None:
    """This central is the production: attach its pools, after a restore of central or of a pool.

    Shows what each database has and what it lacks, and asks before it attaches them. Without POOL, this central takes
    over all its pools: the central that had them before is refused from then on. Stop its control planes first.

    If the URL goes through a pooler in transaction mode, set CALLSHEET_POOL_DIRECT_DSN to the URL without the pooler.
    """
    given = None if pool is None else pool_dsn(dsn)
    names, place = asyncio.run(_adopt(load_settings(), pool, given, yes=yes, retired=retired, with_storage=storage))
    out.print(f"This central owns {', '.join(names)} now.")
    if place is not None:
        out.print(f"This installation owns the storage at {place} now.")


def repoint(
    pools: list[str] = typer.Argument(None, metavar="NAME=DSN …", help="A copy of each pool: pool_1=postgresql://…"),
    physical_copy: bool = typer.Option(
        False, "--physical-copy", help="The pools were copied as disk snapshots or data directories."
    ),
) -> None:
    """Give a copy of the central database its own installation id and pools, for example for staging.

    The pools must be copies as well. A pool needs no DSN here if it was copied together with central's whole server.
    """
    new_id, problem = asyncio.run(_repoint(load_settings(), _named_dsns(pools or []), physical_copy))
    out.print(f"This copy is installation {new_id} now, with pools of its own.")
    if problem is not None:
        err.print(f"Warning: {problem}")


def pool_dsn(given: str | None) -> str | None:
    """The DSN from the argument or the environment."""
    if given is None:
        return given_pool_dsn()
    if _has_password(given):
        raise OperatorError(
            "A password on the command line can be read by other users of this machine, and stays in the shell's "
            f"history. Set {POOL_DSN_VARIABLE} to the whole URL."
        )
    return given


def _has_password(dsn: str) -> bool:
    try:
        parts = urlsplit(dsn)
        return bool(parts.password) or "password" in parse_qs(parts.query)
    except ValueError:
        # The text is not a URL; the caller refuses it.
        return False


async def _adopt(
    settings: Settings, pool: str | None, dsn: str | None, *, yes: bool, retired: bool, with_storage: bool
) -> tuple[list[str], str | None]:
    """The adopted pools, and the place of the storage if it was taken over too."""
    from callsheet.media.storage.owner import mark
    from callsheet.operate.installation.pool_contents import read_contents
    from callsheet.plumbing.database.adopt import adopt, plan_adoption
    from callsheet.plumbing.database.database import connected
    from callsheet.plumbing.database.databases import CENTRAL, reached_central
    from callsheet.plumbing.database.ownership import read_central

    async with reached_central(settings) as central_dsn:
        plan = await plan_adoption(settings, central_dsn, pool, dsn, given_pool_direct_dsn(), may_be_retired=retired)
        changes = [each for each in plan if each.reason is not None]
        for each in changes:
            contents = await read_contents(central_dsn, each.target.name, each.target.dsn)
            for line in _shown(each, contents):
                out.print(line)
        if changes:
            _ask(changes, yes)
        names = await adopt(settings, central_dsn, plan, is_whole=pool is None)
        if not with_storage:
            return names, None
        async with connected(central_dsn, CENTRAL) as connection:
            central = await read_central(connection, central_dsn)
        async with _storage(settings) as storage:
            await mark(storage, central.installation_id)
            return names, storage.place


def _ask(changes: Sequence[Adoption], yes: bool) -> None:
    databases = counted(len(changes), "database")
    require_consent(f"Attach {databases}?", "attached", yes, f"attach {databases}")


def _shown(adoption: Adoption, contents: PoolContents) -> Iterator[str]:
    from callsheet.operate.installation.pool_contents import misplaced_sentence

    target, found = adoption.target, contents.found
    yield f"{target.name}: {adoption.address}"
    yield f"  why: {adoption.reason}"
    if target.owner is not None:
        yield f"  belongs to: installation {target.owner.installation_id}, central at {target.owner.central_name}"
        yield f"  last used: {moment(target.owner.renewed_at)}"
    newest = f", the newest {found.newest_job} of {moment(found.newest_at)}" if found.jobs else ""
    yield f"  has: {counted(found.jobs, 'job')}{newest}; {round(found.size_bytes / MEBIBYTE)} MiB"
    lost, more = contents.newer_in_central, contents.newer_in_pool
    if lost.jobs:
        yield (
            f"  lacks: {counted(lost.jobs, 'job')} that central knows, the newest of {moment(lost.newest_at)}. If you "
            "attach this database, they are lost"
        )
    else:
        yield "  lacks: no job that central knows is newer"
    if more:
        yield f"  unknown to central: {counted(more, 'job')}. What of them has not ended is queued again"
    if contents.missing:
        yield f"  lacks tenants: {', '.join(contents.missing[:5])}{' and others' * (len(contents.missing) > 5)}"
    if contents.misplaced:
        yield f"  moved tenants: {misplaced_sentence(target.name, contents.misplaced)}"


async def _repoint(settings: Settings, dsns: dict[str, str], physical_copy: bool) -> tuple[UUID, str | None]:
    """The new id, and the reason why this copy may not delete anything in its storage, if there is one."""
    from callsheet.media.storage.owner import refusal
    from callsheet.plumbing.database.databases import reached_central
    from callsheet.plumbing.database.repoint import repoint

    async with reached_central(settings) as dsn:
        new_id = await repoint(settings, dsn, dsns, physical_copy=physical_copy)
    async with _storage(settings) as storage:
        try:
            return new_id, await refusal(storage, new_id)
        except Unavailable as error:
            return new_id, f"The storage at {storage.place} was not checked: {error}"


@asynccontextmanager
async def _storage(settings: Settings) -> AsyncIterator[Storage]:
    from callsheet.media.storage import open_storage
    from callsheet.plumbing.installation.secrets import master_secret

    storage = open_storage(settings, master_secret(settings, create=False), None)
    try:
        yield storage
    finally:
        await storage.close()


def _named_dsns(given: list[str]) -> dict[str, str]:
    dsns = {}
    for each in given:
        name, separator, dsn = each.partition("=")
        if not separator or not dsn.startswith(("postgresql://", "postgres://")):
            # The text is not shown, because it may contain a password.
            raise OperatorError("Write each pool as NAME=DSN, like pool_1=postgresql://user:password@host/name")
        dsns[name] = dsn
    return dsns
