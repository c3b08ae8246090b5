"""Checks every part of an installation and gives advice for each problem, for `callsheet doctor` and for operators."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx

from callsheet.media.free_space import distinct, read_places
from callsheet.media.previews.sandbox import kinds
from callsheet.media.storage import open_storage
from callsheet.media.storage.owner import refusal
from callsheet.operate.alerts.current import engine_killers, low_worker_disks
from callsheet.operate.alerts.rules import AlertFacts, alerts
from callsheet.operate.installation.bucket_cors import browser_origins, cors_rule, refused_origins
from callsheet.operate.installation.bucket_rights import parts_findings
from callsheet.operate.installation.local_storage import local_storage_findings
from callsheet.operate.installation.pool_contents import misplaced_sentence, misplaced_tenants
from callsheet.operate.installation.replication import replica_finding, replica_state, replication_findings
from callsheet.plumbing.database.database import DIRECT_DSN, connected
from callsheet.plumbing.database.databases import CENTRAL, pool_addresses, reached_central, replica_dsn_of
from callsheet.plumbing.database.errors import CANNOT_CONNECT, unreachable
from callsheet.plumbing.database.migrate import inspect
from callsheet.plumbing.database.ownership import check_owner, read_central
from callsheet.plumbing.database.servers.poolers import find_mode
from callsheet.plumbing.database.servers.primaries import two_primaries
from callsheet.plumbing.database.servers.replication import read_replication
from callsheet.plumbing.installation.installation_key import key_problem, read_fingerprint
from callsheet.plumbing.installation.secrets import SECOND_FILE, SECRET_FILE, has_key, master_secret
from callsheet.providers.registry import open_registry
from callsheet.settings import Settings
from callsheet.settings.findings import SettingsFinding, clock_finding, safety_findings
from callsheet.settings.safety import unsafe_settings
from callsheet.tasks.prices import TaskPrices
from callsheet.toolbox.disk_space import gibibytes
from callsheet.toolbox.errors import OperatorError, how_to_install
from callsheet.toolbox.http.addresses import is_loopback
from callsheet.toolbox.private_files import is_open_to_others
from callsheet.wire.errors import Refusal, Unavailable
from callsheet.wire.plurals import counted

if TYPE_CHECKING:
    from callsheet.media.storage import Storage
    from callsheet.plumbing.database.migrate import Migration
    from callsheet.plumbing.database.ownership import Central
    from callsheet.plumbing.database.pool_keeper import PoolAddress
    from callsheet.plumbing.database.servers.replica import ReplicaState
    from callsheet.plumbing.database.servers.replication import Replication
    from callsheet.plumbing.database.sql import Connection

# The DSN of central, on a server that runs as long as the block does.
ReachCentral = Callable[[], AbstractAsyncContextManager[str]]
Check = Callable[[Settings, ReachCentral], Awaitable[list[SettingsFinding]]]


async def examine(settings: Settings, reach: ReachCentral | None = None) -> list[SettingsFinding]:
    """Checks the installation. `reach`: how central is reached. Default: as a command does, which starts the
    embedded server if no server runs.
    """
    reach = reach or (lambda: reached_central(settings))
    findings = [_secrets(settings), *_data_directory(settings), *safety_findings(unsafe_settings(settings))]
    findings += [*await asyncio.to_thread(_disks, settings), *_previews(settings)]
    checks: dict[str, Check] = {
        "database": _database,
        "storage": _storage,
        "engine": _engine,
        "providers": _providers,
    }
    for part, check in checks.items():
        findings.extend(await _guarded(part, check, settings, reach))
    return findings


async def _guarded(part: str, check: Check, settings: Settings, reach: ReachCentral) -> list[SettingsFinding]:
    try:
        return await check(settings, reach)
    except (OperatorError, Refusal, OSError) as error:
        return [SettingsFinding(part, "problem", str(error) or repr(error))]


def _secrets(settings: Settings) -> SettingsFinding:
    if settings.secret_key is not None:
        return SettingsFinding("secrets", "ok", "The secret key comes from the settings.")
    try:
        master_secret(settings, create=False)
    except OperatorError as error:
        return SettingsFinding("secrets", "problem", str(error))
    file = settings.home / SECRET_FILE
    if file.stat().st_mode & 0o077:
        return SettingsFinding(
            "secrets", "problem", f"Other users of this machine can read {file}.", f"chmod 600 {file}"
        )
    if settings.database.dsn is not None:
        return SettingsFinding(
            "secrets",
            "warning",
            "The secret key is only in this machine's data directory.",
            "With more than one control plane, set the same CALLSHEET_SECRET_KEY on each.",
        )
    if (settings.home / SECOND_FILE).exists():
        message = f"The secret key is kept in {file} and is being rotated: the old one is still accepted."
        return SettingsFinding(
            "secrets",
            "ok",
            message,
            "When nothing depends on the old key any more, end the rotation: callsheet secrets finish",
        )
    return SettingsFinding("secrets", "ok", f"The secret key is kept in {file}.")


def _data_directory(settings: Settings) -> list[SettingsFinding]:
    if not settings.home.is_dir() or not is_open_to_others(settings.home):
        return []
    return [
        SettingsFinding(
            "home",
            "warning",
            f"Other users of this machine can read the data directory {settings.home}.",
            f"Close it: chmod go-rw {settings.home}",
        )
    ]


def _disks(settings: Settings) -> list[SettingsFinding]:
    """Measures the disks of this control plane, with the limits and texts of the alert."""
    try:
        spaces = distinct(read_places(settings))
    except OSError as error:
        return [SettingsFinding("disk", "problem", f"The free space cannot be read: {error.strerror or error}.")]
    low = alerts(AlertFacts(disks=spaces, disk_limits=settings.disk))
    if not low:
        free = " ".join(f"{gibibytes(each.free_bytes)} are free at {each.path}." for each in spaces)
        return [SettingsFinding("disk", "ok", free)]
    return [
        SettingsFinding("disk", "problem" if alert.severity == "critical" else "warning", alert.message, alert.action)
        for alert in low
    ]


def _previews(settings: Settings) -> list[SettingsFinding]:
    if not settings.media.previews or "video" in kinds():
        return []
    message = (
        "PyAV is missing: videos get no posters and no preview clips, and audio files get no waveforms. Lists show the "
        "first frame of a video instead."
    )
    advice = f"To install it, {how_to_install('server,previews')} and start the control plane again."
    return [SettingsFinding("previews", "warning", message, advice)]


async def _database(settings: Settings, reach: ReachCentral) -> list[SettingsFinding]:
    broken: list[SettingsFinding] = []
    warned: list[SettingsFinding] = []
    poolers: list[SettingsFinding] = []
    replicas: dict[str, ReplicaState | None] = {}
    async with reach() as dsn:
        if settings.database.dsn is not None:
            poolers += await _pooler(CENTRAL, settings.database.dsn.get_secret_value())
        state = await inspect(dsn, "central", CENTRAL)
        broken += await _two_primaries(CENTRAL, dsn)
        async with connected(dsn, CENTRAL) as connection:
            version = await connection.fetchval("SHOW server_version")
            replication = {CENTRAL: await read_replication(connection)}
        pending = {CENTRAL: state.pending}
        pools = await pool_addresses(settings, dsn) if state.version else []
        if pools and not state.pending:
            async with connected(dsn, CENTRAL) as connection:
                central = await read_central(connection, dsn)
                warned = [*await _wrong_key(connection, settings), *await _engine_killers(connection)]
                warned += await _worker_disks(connection, settings)
            replicas[CENTRAL] = await replica_state(settings, CENTRAL, dsn, replica_dsn_of(settings))
            for pool in pools:
                try:
                    pending[pool.name], replication[pool.name] = await _examine_pool(pool, central)
                    if not pending[pool.name]:
                        warned += await _misplaced_tenants(dsn, pool)
                    broken += await _two_primaries(pool.name, pool.dsn)
                    poolers += await _pooler(pool.name, pool.pooled_dsn or pool.dsn)
                    replicas[pool.name] = await replica_state(settings, pool.name, pool.dsn, pool.replica_dsn)
                except OperatorError as error:
                    # The other pools are checked anyway, because they are served.
                    broken.append(SettingsFinding("database", "problem", f"Pool {pool.name} is not served. {error}"))
    where = "embedded" if settings.database.dsn is None else "by DSN"
    behind = [name for name, migrations in pending.items() if migrations]
    found = f"PostgreSQL {version} ({where}), {counted(len(pools), 'pool')}."
    if behind:
        schema = SettingsFinding("database", "warning", f"{found} Behind: {', '.join(behind)}.", "callsheet db migrate")
    else:
        schema = SettingsFinding("database", "ok", found)
    clock = clock_finding("database", replication[CENTRAL].clock_offset_seconds)
    read = [replica_finding(name, state) for name, state in replicas.items() if state is not None]
    return [schema, *broken, *poolers, *replication_findings(settings, replication), *read, clock, *warned]


async def _pooler(name: str, dsn: str) -> list[SettingsFinding]:
    """The mode of the pooler in front of a database, and what goes around it."""
    try:
        mode = await find_mode(dsn)
    except CANNOT_CONNECT as error:
        return [SettingsFinding("database", "problem", unreachable(name, dsn, error))]
    if mode is None:
        return []
    message = f"Database {name} is behind a pooler in {mode} mode."
    if mode == "transaction":
        message += f" Notifications, migrations, commands, lists and sweeps use the DSN without it ({DIRECT_DSN})."
    return [SettingsFinding("database", "ok", message)]


async def _two_primaries(name: str, dsn: str) -> list[SettingsFinding]:
    found = await two_primaries(name, dsn)
    return [] if found is None else [SettingsFinding("database", "problem", *found)]


async def _wrong_key(connection: Connection, settings: Settings) -> list[SettingsFinding]:
    """Control planes with this key do not start. That there is no key is a finding of its own."""
    if not has_key(settings):
        return []
    problem = key_problem(settings, await read_fingerprint(connection))
    return [] if problem is None else [SettingsFinding("secrets", "problem", str(problem))]


async def _engine_killers(connection: Connection) -> list[SettingsFinding]:
    """Finds workflows that repeatedly stop engines, with the text of the alert."""
    found = alerts(AlertFacts(engine_killers=await engine_killers(connection)))
    return [SettingsFinding("workflows", "warning", alert.message, alert.action) for alert in found]


async def _worker_disks(connection: Connection, settings: Settings) -> list[SettingsFinding]:
    """Finds workers whose disk is almost full, with the text of the alert."""
    found = alerts(AlertFacts(worker_disks=await low_worker_disks(connection, settings.disk)))
    return [SettingsFinding("workers", "warning", alert.message, alert.action) for alert in found]


async def _examine_pool(pool: PoolAddress, central: Central) -> tuple[tuple[Migration, ...], Replication]:
    """The pool's missing migrations and its replication. Raises an error that prevents it from being served."""
    state = await inspect(pool.dsn, "pool", pool.name)
    async with connected(pool.dsn, pool.name) as connection:
        await check_owner(connection, pool.name, central, pool.attached_at)
        return state.pending, await read_replication(connection)


async def _misplaced_tenants(central_dsn: str, pool: PoolAddress) -> list[SettingsFinding]:
    async with connected(central_dsn, CENTRAL) as central, connected(pool.dsn, pool.name) as connection:
        found = await misplaced_tenants(central, connection, pool.name)
    return [SettingsFinding("database", "warning", misplaced_sentence(pool.name, found))] if found else []


async def _storage(settings: Settings, reach: ReachCentral) -> list[SettingsFinding]:
    storage = open_storage(settings, master_secret(settings, create=False), None)
    is_local = settings.storage.backend == "local"
    try:
        try:
            await storage.check()
        except Unavailable as error:
            return [SettingsFinding("storage", "problem", str(error), _storage_advice(settings))]
        foreign, unshared = await _examine_storage_rows(settings, reach, storage)
        # The control plane itself serves local storage, and checks it.
        origins = () if is_local else browser_origins(settings)
        refused = await refused_origins(storage, origins)
        lacking = await parts_findings(settings, storage)
    finally:
        await storage.close()
    findings = [
        SettingsFinding("storage", "ok", f"An object was written, read and deleted ({settings.storage.backend}).")
    ]
    if foreign is not None:
        findings.append(SettingsFinding("storage", "problem", foreign))
    findings += [*unshared, *lacking]
    if refused:
        message = f"The bucket has no CORS rule for {', '.join(refused)}: its pages cannot upload or read files."
        findings.append(SettingsFinding("storage", "warning", message, f"Set this CORS rule: {cors_rule(origins)}"))
    return findings


def _storage_advice(settings: Settings) -> str:
    if settings.storage.backend == "s3":
        return "Check the bucket, its keys and the network: CALLSHEET_STORAGE__S3__…"
    return (
        f"The user who runs Callsheet must own {settings.home / 'storage'} and be able to write there: chown -R USER "
        "DIRECTORY. Look for a full disk too, or set CALLSHEET_HOME to another directory."
    )


async def _examine_storage_rows(
    settings: Settings, reach: ReachCentral, storage: Storage
) -> tuple[str | None, list[SettingsFinding]]:
    """Why nothing is deleted in this storage: it belongs to another installation. And what other machines would have
    to share with this one. Neither if central cannot be read.
    """
    try:
        async with reach() as dsn:
            if (await inspect(dsn, "central", CENTRAL)).pending:
                return None, []
            async with connected(dsn, CENTRAL) as connection:
                central = await read_central(connection, dsn)
            is_shared = settings.storage.backend != "local"
            unshared = [] if is_shared else await local_storage_findings(settings, storage, dsn)
    except OperatorError:
        return None, []  # The finding about the database explains this.
    return await refusal(storage, central.installation_id), unshared


async def _engine(settings: Settings, reach: ReachCentral) -> list[SettingsFinding]:
    url = settings.engine.url.rstrip("/")
    try:
        async with httpx.AsyncClient(timeout=3, trust_env=False) as client:
            response = await client.get(f"{url}/system_stats")
            version = response.raise_for_status().json()["system"].get("comfyui_version", "(unknown version)")
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError, AttributeError) as error:
        if "url" not in settings.engine.model_fields_set:
            # Most control planes have no engine beside them, and the demo has its own.
            return [SettingsFinding("engine", "ok", f"No ComfyUI at {url}. Only machines that render need it.")]
        reason = str(error) or type(error).__name__
        return [
            SettingsFinding(
                "engine",
                "warning",
                f"No ComfyUI responds at {url} ({reason}).",
                "Only a machine that renders needs ComfyUI. Start ComfyUI there, or set CALLSHEET_ENGINE__URL.",
            )
        ]
    return [SettingsFinding("engine", "ok", f"ComfyUI {version} at {url}.")]


async def _providers(settings: Settings, reach: ReachCentral) -> list[SettingsFinding]:
    """Checks the providers. No provider is called, because a call may cost money."""
    registry = open_registry(settings.providers, allow_networks=settings.outgoing.allow_networks)
    try:
        found = f"Actors {', '.join(sorted(registry.actors))}; media by {', '.join(sorted(registry.media))}."
        unpriced = list(TaskPrices(settings.tasks.costs, registry.media).missing(registry.actors, registry.media))
    finally:
        await registry.close()
    prices = [_unpriced(unpriced)] if unpriced else []
    if settings.providers.replicate.token is not None and is_loopback(urlsplit(settings.public_url).hostname or ""):
        return [
            *prices,
            SettingsFinding(
                "providers",
                "warning",
                f"{found} Replicate cannot call back to {settings.public_url}; so its results are polled.",
                "Set CALLSHEET_SERVER__PUBLIC_URL to the URL at which the internet reaches this control plane.",
            ),
        ]
    return [*prices, SettingsFinding("providers", "ok", found)]


def _unpriced(names: list[str]) -> SettingsFinding:
    return SettingsFinding(
        "prices",
        "warning",
        f"Tasks of {', '.join(names)} are refused: they call a paid service, and no price is set.",
        f"Set a price in tokens: CALLSHEET_TASKS__COSTS='{{\"{names[0]}\": 5}}'. A price of 0 makes it free.",
    )
