"""`callsheet tenants share`: the share of the workers that a tenant gets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from callsheet.cli.accounts.accounts import AS_JSON, known_tenant
from callsheet.cli.shared.console import checked, print_json, print_table
from callsheet.cli.shared.rooms import with_rooms
from callsheet.toolbox.errors import OperatorError
from callsheet.wire.operate.tenant_weights import ChangeTenantWeight, TenantWeight

if TYPE_CHECKING:
    from callsheet.app.rooms import Rooms

DEFAULT = "default"


def tenant_share(
    slug: str = typer.Argument(help="Short name of the tenant."),
    weight: str | None = typer.Option(
        None,
        help="Weight of the tenant. A tenant of weight 2 has twice as many running jobs as a tenant of weight "
        "1. Default: 1.",
    ),
    max_running: str | None = typer.Option(
        None, help="Largest number of the tenant's jobs that run at once, or `default`."
    ),
    max_running_per_user: str | None = typer.Option(
        None, help="Largest number of jobs of one user that run at once, or `default`."
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Show the share of the workers that a tenant gets, or change it."""
    given = {"weight": weight, "max_running": max_running, "max_running_per_user": max_running_per_user}
    changes = {name: _parsed(name, value) for name, value in given.items() if value is not None}
    request = checked(ChangeTenantWeight, **changes)
    found = with_rooms(lambda rooms: _changed(rooms, slug, request))
    if as_json:
        print_json(found)
        return
    rows = [(name, "no limit" if value is None else value) for name, value in found if name != "tenant"]
    print_table(("share", "value"), rows)


def _parsed(name: str, value: str) -> float | int | None:
    if value == DEFAULT:
        return None
    try:
        return float(value) if name == "weight" else int(value)
    except ValueError:
        raise OperatorError(f"--{name.replace('_', '-')} must be a number or `{DEFAULT}`, not {value!r}.") from None


async def _changed(rooms: Rooms, slug: str, request: ChangeTenantWeight) -> TenantWeight:
    from callsheet.identity.accounts.managers import COMMAND_LINE

    tenant, weights = await known_tenant(rooms, slug), rooms.dispatch.tenant_weights
    if request.model_fields_set:
        return await weights.change(COMMAND_LINE.actor, tenant.id, request)
    return await weights.get(tenant.id)
