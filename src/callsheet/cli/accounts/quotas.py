"""`callsheet tenants quotas`: the quotas of a tenant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from callsheet.cli.accounts.accounts import AS_JSON, known_tenant
from callsheet.cli.shared.console import checked, out, print_json, print_table
from callsheet.cli.shared.rooms import with_rooms
from callsheet.toolbox.errors import OperatorError
from callsheet.wire.operate.quotas import ChangeQuotas, QuotaLimits, TenantQuotas
from callsheet.wire.plurals import counted

if TYPE_CHECKING:
    from callsheet.app.rooms import Rooms

NAMES = tuple(QuotaLimits.model_fields)


def tenant_quotas(
    slug: str = typer.Argument(help="Short name of the tenant."),
    changes: list[str] = typer.Option(
        [], "--set", help="Set a limit of this tenant: NAME=NUMBER. NAME=default restores the installation's limit."
    ),
    recount: bool = typer.Option(
        False,
        "--recount",
        help="Count the tenant's files and rows again, for example after tables were restored one by one.",
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Show what a tenant and its users may keep, or change it."""
    request = checked(ChangeQuotas, **_parsed(changes))
    found = with_rooms(lambda rooms: _changed(rooms, slug, request, recount))
    if as_json:
        print_json(found)
        return
    rows = [(name, limit, "own" if name in found.changed else "default") for name, limit in found.limits]
    print_table(("limit", "value", "from"), rows)
    if found.storage is None:
        out.print(f"The pool of {found.tenant} cannot be reached, so the size of its files is not known.")
    else:
        out.print(f"Files of {found.tenant}: {found.storage.files}, {counted(found.storage.bytes, 'byte')} in total.")
        out.print(f"Pipelines, runs and jobs in the database: {counted(found.database_bytes or 0, 'byte')}.")
        if found.storage.reserved_bytes:
            out.print(
                f"For new uploads, {counted(found.storage.reserved_bytes, 'more byte counts', 'more bytes count')}: "
                f"{counted(found.storage.reserved_files, 'confirmed upload has a URL', 'confirmed uploads have URLs')} "
                "that can still be used."
            )


def _parsed(changes: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for change in changes:
        name, _, value = change.partition("=")
        if name not in NAMES:
            raise OperatorError(f"Unknown limit {name!r}. Available: {', '.join(NAMES)}")
        if value != "default" and not value.isdecimal():
            raise OperatorError(f"{name} must be a whole number or `default`, not {value!r}.")
        found[name] = None if value == "default" else int(value)
    return found


async def _changed(rooms: Rooms, slug: str, request: ChangeQuotas, recount: bool) -> TenantQuotas:
    from callsheet.identity.accounts.managers import COMMAND_LINE
    from callsheet.media.quota_routes import quotas_view

    tenant, usage, quotas = await known_tenant(rooms, slug), rooms.storage_usage, rooms.accounts.quotas
    if recount:
        await usage.recount(tenant.id, tenant.pool)
    if request.model_fields_set:
        await quotas.change(COMMAND_LINE.actor, tenant.id, request)
    return await quotas_view(usage, tenant, await quotas.changed(tenant.id))
