"""`callsheet tenants`, `callsheet users`, `callsheet keys`: the accounts of this installation."""

from __future__ import annotations

import getpass
import secrets
import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING
from uuid import UUID

import typer

from callsheet.cli.jobs.submit import URL
from callsheet.cli.shared.console import checked, err, moment, out, print_json, print_table
from callsheet.cli.shared.rooms import with_rooms
from callsheet.toolbox.errors import OperatorError
from callsheet.wire.identity import (
    CreatedInvitation,
    CreatedKey,
    CreateInvitationRequest,
    CreateKeyRequest,
    CreateTenantRequest,
    CreateUserRequest,
    Key,
    ResetLink,
    Role,
    Tenant,
    User,
)
from callsheet.wire.tenant.service_keys import CreatedServiceKey, CreateServiceKey, ServiceKey, ServiceScope

if TYPE_CHECKING:
    from callsheet.app.rooms import Rooms
    from callsheet.identity.accounts.managers import Manager

tenants = typer.Typer(help="The tenants of this installation.", no_args_is_help=True)
users = typer.Typer(help="Users of a tenant.", no_args_is_help=True)
keys = typer.Typer(help="API keys.", no_args_is_help=True)

EMAIL = typer.Argument(help="E-mail address of the user.")
AS_JSON = typer.Option(False, "--json", help="Print JSON.")
LISTED = 10_000


class AnyScope(StrEnum):
    """The scopes of keys of users and of service keys."""

    READ = "read"
    SUBMIT = "submit"
    ADMIN = "admin"
    SUBMIT_FOR_USERS = "submit_for_users"
    CREDIT = "credit"


@tenants.command("create")
def create_tenant(
    slug: str = typer.Argument(help="Short name: lower-case letters, digits and dashes."),
    name: str | None = typer.Option(None, help="Display name. Default: the short name."),
    pool: str | None = typer.Option(
        None, help="Pool that holds the tenant's data. Default: the pool with the fewest tenants."
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Create a tenant."""
    request = checked(CreateTenantRequest, slug=slug, name=name or slug, pool=pool)
    tenant = with_rooms(lambda rooms: rooms.accounts.accounts.create_tenant(request))
    print_json(tenant) if as_json else out.print(f"Tenant {tenant.slug} was created in the pool {tenant.pool}.")


@tenants.command("list")
def list_tenants(as_json: bool = AS_JSON) -> None:
    """List the tenants."""
    page = with_rooms(lambda rooms: rooms.accounts.accounts.list_tenants(None, LISTED))
    if as_json:
        print_json(page.items)
    else:
        rows = [(row.slug, row.name, row.pool, _state(row), row.id) for row in page.items]
        print_table(("slug", "name", "pool", "state", "id"), rows)


@tenants.command("disable")
def disable_tenant(slug: str = typer.Argument(help="Short name of the tenant."), as_json: bool = AS_JSON) -> None:
    """Block all users of a tenant at once. Its accepted jobs, including queued ones, still run and are settled."""
    tenant = _with_tenant(slug, lambda rooms, id: rooms.accounts.management.disable_tenant(_manager(), id))
    print_json(tenant) if as_json else out.print(f"Tenant {tenant.slug} is disabled. Its accepted jobs continue.")


@tenants.command("enable")
def enable_tenant(slug: str = typer.Argument(help="Short name of the tenant."), as_json: bool = AS_JSON) -> None:
    """Unblock the users of a disabled tenant."""
    tenant = _with_tenant(slug, lambda rooms, id: rooms.accounts.management.enable_tenant(_manager(), id))
    print_json(tenant) if as_json else out.print(f"Tenant {tenant.slug} is enabled.")


@users.command("create")
def create_user(
    email: str = typer.Argument(help="E-mail address to sign in with."),
    tenant: str = typer.Option(..., help="Short name of the tenant."),
    role: Role = typer.Option(
        Role.USER,
        help="What the user may do: use own data (user), manage the tenant (tenant_admin), everything (operator), or "
        "see everything and change nothing (viewer).",
    ),
    admin: bool = typer.Option(False, "--admin", help="The old name of --role operator."),
    name: str = typer.Option("", help="Display name."),
    password_stdin: bool = typer.Option(False, "--password-stdin", help="Read the password from standard input."),
    as_json: bool = AS_JSON,
) -> None:
    """Create a user. Without a terminal and without --password-stdin, a random password is printed once."""
    password, made_up = _new_password(password_stdin)
    if admin:
        if role not in (Role.USER, Role.OPERATOR):
            raise OperatorError(f"--admin means --role operator, and --role {role.value} differs. Use --role alone.")
        err.print("--admin is the old name of --role operator.", style="dim")
        role = Role.OPERATOR
    request = checked(CreateUserRequest, tenant=tenant, email=email, password=password, name=name, role=role)
    user = with_rooms(lambda rooms: rooms.accounts.accounts.create_user(request))
    shown = {"password": password} if made_up else {}
    if as_json:
        print_json({**user.model_dump(mode="json"), **shown})
    else:
        out.print(f"User {user.email} ({user.role.value}) of {user.tenant}.")
        if made_up:
            out.print(f"Password: {password}")


@users.command("list")
def list_users(
    tenant: str | None = typer.Option(None, help="Only the users of this tenant."), as_json: bool = AS_JSON
) -> None:
    """List the users."""
    page = with_rooms(lambda rooms: rooms.accounts.accounts.list_users(tenant, None, LISTED))
    if as_json:
        print_json(page.items)
    else:
        rows = [(row.email, row.role.value, row.tenant, _state(row), row.name, row.id) for row in page.items]
        print_table(("email", "role", "tenant", "state", "name", "id"), rows)


@users.command("set-password")
def set_password(
    email: str,
    password_stdin: bool = typer.Option(False, "--password-stdin", help="Read the password from standard input."),
) -> None:
    """Set a new password of a user, and end all sessions and API keys of the user."""
    password, made_up = _new_password(password_stdin)
    with_rooms(lambda rooms: rooms.accounts.accounts.set_password(email.strip().lower(), password))
    out.print(f"Password: {password}" if made_up else "Done.")


@users.command("invite")
def invite_user(
    email: str = typer.Argument(help="E-mail address of the person."),
    tenant: str = typer.Option(..., help="Short name of the tenant."),
    role: Role = typer.Option(Role.USER, help="Role of the user: see `callsheet users create --help`."),
    by_mail: bool = typer.Option(False, "--mail", help="Send the link by the configured mail server."),
    as_json: bool = AS_JSON,
) -> None:
    """Invite a person, who sets their own password. The link is printed once, or sent with --mail."""
    request = checked(CreateInvitationRequest, tenant=tenant, email=email, role=role)

    async def invite(rooms: Rooms) -> CreatedInvitation:
        if by_mail and rooms.settings.mail.host is None:
            raise OperatorError("No mail server is configured: CALLSHEET_MAIL__HOST is not set. Leave --mail out.")
        return await rooms.identity.links.invitations.create(_manager(), request, by_mail=by_mail)

    created = with_rooms(invite)
    if as_json:
        print_json(created)
    elif created.link is None:
        out.print(f"A running control plane sends the invitation to {created.email}.")
    else:
        out.print(created.link)
        err.print(
            f"Send it to {created.email}. It works once, until {created.expires_at:%Y-%m-%d %H:%M} UTC.", style="dim"
        )


@users.command("reset-password")
def reset_password(email: str = EMAIL, as_json: bool = AS_JSON) -> None:
    """Print a link with which a user sets a new password. It works once."""

    async def create(rooms: Rooms) -> ResetLink:
        return await rooms.identity.links.resets.create_link(_manager(), (await known_user(rooms, email)).id)

    created = with_rooms(create)
    if as_json:
        print_json(created)
    else:
        out.print(created.link)
        err.print(f"Send it to the user. It works until {created.expires_at:%Y-%m-%d %H:%M} UTC.", style="dim")


@users.command("role")
def change_role(
    email: str = EMAIL,
    role: Role = typer.Argument(help="New role of the user: user, tenant_admin, operator or viewer."),
    as_json: bool = AS_JSON,
) -> None:
    """Change the role of a user. A user who becomes an operator or a viewer loses all keys and sessions."""
    user = _with_user(email, lambda rooms, id: rooms.accounts.management.change_role(_manager(), id, role))
    print_json(user) if as_json else out.print(f"User {user.email} is {user.role.value} of {user.tenant}.")


@users.command("disable")
def disable_user(email: str = EMAIL, as_json: bool = AS_JSON) -> None:
    """Block a user's keys and end the sessions at once. Active jobs continue and are settled."""
    user = _with_user(email, lambda rooms, id: rooms.accounts.management.disable(_manager(), id))
    print_json(user) if as_json else out.print(f"User {user.email} is disabled. Active jobs continue.")


@users.command("enable")
def enable_user(email: str = EMAIL, as_json: bool = AS_JSON) -> None:
    """Unblock a disabled user. The keys work again."""
    user = _with_user(email, lambda rooms, id: rooms.accounts.management.enable(_manager(), id))
    print_json(user) if as_json else out.print(f"User {user.email} is enabled.")


@users.command("delete")
def delete_user(
    email: str = EMAIL,
    cancel_jobs: bool = typer.Option(False, "--cancel-jobs", help="Cancel active jobs and runs instead of refusing."),
    as_json: bool = AS_JSON,
) -> None:
    """Delete a user permanently. Keys and sessions are removed, e-mail address and name are anonymised. Jobs and the
    ledger keep the user's id."""

    user = _with_user(email, lambda rooms, id: rooms.user_deletion.delete(_manager(), id, cancel_jobs=cancel_jobs))
    print_json(user) if as_json else out.print(f"User {email} is deleted. Jobs and ledger keep the id {user.id}.")


@keys.command("create")
def create_key(
    user: str | None = typer.Option(None, help="E-mail address of the user who owns the key."),
    service: str | None = typer.Option(
        None, help="Slug of a tenant: creates a service key, with which the tenant's server acts for its users."
    ),
    name: str = typer.Option("cli", help="Name of the key, for example what it is used for."),
    scopes: list[AnyScope] | None = typer.Option(
        None,
        "--scope",
        help="What the key may do: see the user's data (read), upload, submit and change (submit), or administer "
        "(admin). A service key: see all data of users (read), upload and submit for users (submit_for_users), or give "
        "and take back tokens (credit). Can be repeated. Default: everything that is possible.",
    ),
    expires_days: int | None = typer.Option(
        None, min=1, max=3650, help="Number of days until the key expires. Default: it does not expire."
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Create an API key. It is printed only this once."""
    expires_at = None if expires_days is None else datetime.now(UTC) + timedelta(days=expires_days)
    values = {"name": name, "expires_at": expires_at}
    if (user is None) == (service is None):
        raise OperatorError("Name either a user with --user, or a tenant with --service.")
    created: CreatedKey | CreatedServiceKey
    if user is not None:
        request = checked(CreateKeyRequest, scopes=scopes or None, **values)
        created = with_rooms(lambda rooms: _create_key(rooms, user, request))
    else:
        assert service is not None
        wanted = checked(CreateServiceKey, scopes=scopes or list(ServiceScope), **values)
        created = with_rooms(lambda rooms: _create_service_key(rooms, service, wanted))
    if as_json:
        print_json(created)
    else:
        out.print(created.key)
        err.print("Store the key now: it is not shown again.", style="dim")


async def _create_key(rooms: Rooms, email: str, request: CreateKeyRequest) -> CreatedKey:
    return await rooms.accounts.keys.create((await known_user(rooms, email)).id, request)


async def _create_service_key(rooms: Rooms, slug: str, request: CreateServiceKey) -> CreatedServiceKey:
    from callsheet.identity.audit_log import OPERATOR

    tenant = await known_tenant(rooms, slug)
    return await rooms.accounts.service_keys.create(tenant.id, request, OPERATOR, may_credit=True)


async def _revoke_key(rooms: Rooms, id_or_prefix: str) -> Key | ServiceKey:
    from callsheet.identity.audit_log import OPERATOR

    found = await rooms.accounts.keys.find_for_operator(id_or_prefix)
    if found.user_id is None:
        return await rooms.accounts.service_keys.revoke(found.tenant_id, found.id, OPERATOR)
    return await rooms.accounts.keys.revoke(found.user_id, found.id)


@keys.command("list")
def list_keys(
    user: str | None = typer.Option(None, help="E-mail address of the user. Default: you, as you are logged in."),
    service: str | None = typer.Option(None, help="Slug of a tenant: lists its service keys."),
    url: str | None = URL,
    as_json: bool = AS_JSON,
) -> None:
    """List your API keys, those of another user of this installation, or the service keys of a tenant."""
    from callsheet.cli.shared.operations_client import with_operations

    async def find(rooms: Rooms) -> Sequence[Key | ServiceKey]:
        if service is not None:
            return (await rooms.accounts.service_keys.list((await known_tenant(rooms, service)).id, None, LISTED)).items
        assert user is not None
        return (await rooms.accounts.keys.list((await known_user(rooms, user)).id, None, LISTED)).items

    if user is not None and service is not None:
        raise OperatorError("Name either a user with --user, or a tenant with --service.")
    found: Sequence[Key | ServiceKey]
    if user is None and service is None:
        found = with_operations(url, lambda client: client.own_keys())
    else:
        found = with_rooms(find)
    if as_json:
        print_json(found)
    else:
        rows = [
            (
                f"{key.prefix}…",
                key.name,
                ", ".join(key.scopes),
                moment(key.last_used_at),
                moment(key.expires_at),
                moment(key.revoked_at),
                key.id,
            )
            for key in found
        ]
        print_table(("key", "name", "scopes", "last used", "expires", "revoked", "id"), rows)


@keys.command("revoke")
def revoke_key(key: str = typer.Argument(help="Id of the key, or the characters that lists show.")) -> None:
    """Revoke an API key at once and permanently."""
    revoked = with_rooms(lambda rooms: _revoke_key(rooms, key.rstrip("…")))
    out.print(f"Key {revoked.prefix}… ({revoked.name}) is revoked.")


def _manager() -> Manager:
    """A person at the command line may do everything."""
    from callsheet.identity.accounts.managers import COMMAND_LINE

    return COMMAND_LINE


def _state(row: User | Tenant) -> str:
    return "active" if row.disabled_at is None else "disabled"


async def known_tenant(rooms: Rooms, slug: str) -> Tenant:
    found = await rooms.accounts.accounts.find_tenant(slug)
    if found is None:
        raise OperatorError(f"There is no tenant {slug!r}. List them: callsheet tenants list")
    return found


async def known_user(rooms: Rooms, email: str) -> User:
    found = await rooms.accounts.accounts.find_user(email.strip().lower())
    if found is None:
        raise no_such_user(email)
    return found


def no_such_user(email: str) -> OperatorError:
    return OperatorError(f"There is no user {email!r}. List them: callsheet users list")


def _new_password(from_stdin: bool) -> tuple[str, bool]:
    """A password, and whether it was generated here."""
    if from_stdin:
        password = sys.stdin.readline().rstrip("\n")
    elif sys.stdin.isatty():
        password = getpass.getpass("Password: ")
        if getpass.getpass("Again: ") != password:
            raise OperatorError("The two passwords are not the same.")
    else:
        return secrets.token_urlsafe(12), True
    if not 10 <= len(password) <= 256:
        raise OperatorError("A password has 10 to 256 characters.")
    return password, False


def _with_user(email: str, work: Callable[[Rooms, UUID], Awaitable[User]]) -> User:
    async def found(rooms: Rooms) -> User:
        return await work(rooms, (await known_user(rooms, email)).id)

    return with_rooms(found)


def _with_tenant(slug: str, work: Callable[[Rooms, UUID], Awaitable[Tenant]]) -> Tenant:
    async def found(rooms: Rooms) -> Tenant:
        return await work(rooms, (await known_tenant(rooms, slug)).id)

    return with_rooms(found)
