"""`callsheet tenants`, `callsheet users`, `callsheet keys`: who may use this installation."""

from __future__ import annotations

import asyncio
import getpass
import secrets
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import typer

from callsheet.cli.console import checked, err, out, print_json, print_table
from callsheet.settings import load_settings
from callsheet.toolbox.errors import OperatorError
from callsheet.wire.base import Page
from callsheet.wire.identity import (
    CreatedKey,
    CreateKeyRequest,
    CreateTenantRequest,
    CreateUserRequest,
    Key,
    Role,
    User,
)

if TYPE_CHECKING:
    from callsheet.identity.accounts import Accounts
    from callsheet.identity.keys import Keys

Result = TypeVar("Result")

tenants = typer.Typer(help="The tenants of this installation.", no_args_is_help=True)
users = typer.Typer(help="The people of a tenant.", no_args_is_help=True)
keys = typer.Typer(help="API keys.", no_args_is_help=True)

AS_JSON = typer.Option(False, "--json", help="Print JSON.")
LISTED = 10_000


@tenants.command("create")
def create_tenant(
    slug: str = typer.Argument(help="Short name: lower-case letters, digits and dashes."),
    name: str | None = typer.Option(None, help="Name for people. Default: the short name."),
    pool: str | None = typer.Option(None, help="Pool to live in. Default: the one with the fewest tenants."),
    as_json: bool = AS_JSON,
) -> None:
    """Create a tenant."""
    request = checked(CreateTenantRequest, slug=slug, name=name or slug, pool=pool)
    tenant = _with_accounts(lambda accounts, _: accounts.create_tenant(request))
    print_json(tenant) if as_json else out.print(f"Tenant {tenant.slug} lives in {tenant.pool}.")


@tenants.command("list")
def list_tenants(as_json: bool = AS_JSON) -> None:
    """List the tenants."""
    page = _with_accounts(lambda accounts, _: accounts.list_tenants(None, LISTED))
    if as_json:
        print_json(page.items)
    else:
        print_table(("slug", "name", "pool", "id"), [(row.slug, row.name, row.pool, row.id) for row in page.items])


@users.command("create")
def create_user(
    email: str = typer.Argument(help="E-mail address to sign in with."),
    tenant: str = typer.Option(..., help="Short name of the tenant."),
    role: Role = typer.Option(
        Role.USER,
        help="What the user may do: own things (user), manage its tenant (tenant_admin), everything (operator), or see "
        "everything and change nothing (viewer).",
    ),
    admin: bool = typer.Option(False, "--admin", help="The old name of --role operator."),
    name: str = typer.Option("", help="Name for people."),
    password_stdin: bool = typer.Option(False, "--password-stdin", help="Read the password from standard input."),
    as_json: bool = AS_JSON,
) -> None:
    """Create a user. Without a terminal or --password-stdin a password is made up and printed once."""
    password, made_up = _new_password(password_stdin)
    if admin:
        if role not in (Role.USER, Role.OPERATOR):
            raise OperatorError(f"--admin means --role operator, and --role {role.value} differs. Use --role alone.")
        err.print("--admin is the old name of --role operator.", style="dim")
        role = Role.OPERATOR
    request = checked(CreateUserRequest, tenant=tenant, email=email, password=password, name=name, role=role)
    user = _with_accounts(lambda accounts, _: accounts.create_user(request))
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
    page = _with_accounts(lambda accounts, _: accounts.list_users(tenant, None, LISTED))
    if as_json:
        print_json(page.items)
    else:
        rows = [(row.email, row.role.value, row.tenant, row.name, row.id) for row in page.items]
        print_table(("email", "role", "tenant", "name", "id"), rows)


@users.command("set-password")
def set_password(
    email: str,
    password_stdin: bool = typer.Option(False, "--password-stdin", help="Read the password from standard input."),
) -> None:
    """Give a user a new password and end all their browser sessions."""
    password, made_up = _new_password(password_stdin)
    _with_accounts(lambda accounts, _: accounts.set_password(email.strip().lower(), password))
    out.print(f"Password: {password}" if made_up else "Done.")


@keys.command("create")
def create_key(
    user: str = typer.Option(..., help="E-mail address of the user it acts for."),
    name: str = typer.Option("cli", help="What it is for."),
    as_json: bool = AS_JSON,
) -> None:
    """Create an API key. It is printed this once."""
    request = checked(CreateKeyRequest, name=name)

    async def create(accounts: Accounts, keys: Keys) -> CreatedKey:
        return await keys.create((await _known_user(accounts, user)).id, request.name)

    created = _with_accounts(create)
    if as_json:
        print_json(created)
    else:
        out.print(created.key)
        err.print("Keep it: it is not shown again.", style="dim")


@keys.command("list")
def list_keys(user: str = typer.Option(..., help="E-mail address of the user."), as_json: bool = AS_JSON) -> None:
    """List a user's API keys."""

    async def find(accounts: Accounts, keys: Keys) -> Page[Key]:
        return await keys.list((await _known_user(accounts, user)).id, None, LISTED)

    page = _with_accounts(find)
    if as_json:
        print_json(page.items)
    else:
        rows = [(key.prefix + "…", key.name, key.last_used_at, key.revoked_at, key.id) for key in page.items]
        print_table(("key", "name", "last used", "revoked", "id"), rows)


@keys.command("revoke")
def revoke_key(key: str = typer.Argument(help="Id of the key, or the characters that lists show.")) -> None:
    """Revoke an API key, at once and for good."""
    revoked = _with_accounts(lambda _, keys: keys.revoke_as_operator(key.rstrip("…")))
    out.print(f"Key {revoked.prefix}… ({revoked.name}) is revoked.")


async def _known_user(accounts: Accounts, email: str) -> User:
    found = await accounts.find_user(email.strip().lower())
    if found is None:
        raise OperatorError(f"There is no user {email!r}. List them: callsheet users list")
    return found


def _new_password(from_stdin: bool) -> tuple[str, bool]:
    """A password, and whether it was made up here."""
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


def _with_accounts(work: Callable[[Accounts, Keys], Awaitable[Result]]) -> Result:
    return asyncio.run(_opened(work))


async def _opened(work: Callable[[Accounts, Keys], Awaitable[Result]]) -> Result:
    from callsheet.identity.accounts import Accounts
    from callsheet.identity.keys import Keys
    from callsheet.identity.passwords import Passwords
    from callsheet.plumbing.databases import open_installation

    databases = await open_installation(load_settings())
    try:
        return await work(Accounts(databases, Passwords()), Keys(databases))
    finally:
        await databases.close()
