"""Finds accounts with a public password, because a release of Callsheet published it."""

from __future__ import annotations

from callsheet.identity.access.passwords import Passwords
from callsheet.identity.access.principal import LoginRow
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.settings import Settings
from callsheet.toolbox.errors import OperatorError
from callsheet.wire.identity import PUBLISHED_PASSWORDS

SQL = statements("callsheet.identity.access")
# The operator that `callsheet demo` creates. Older versions gave it the same password everywhere.
DEMO_EMAIL = "admin@demo.example"


def password_command(email: str) -> str:
    return f"callsheet users set-password {email}"


async def password_fits(connection: Connection, passwords: Passwords, email: str, password: str) -> bool:
    """Whether a user who can sign in has this password. This is for processes with access to the database, so it
    does not count as an attempt.
    """
    login = await SQL["find_login"].row(connection, LoginRow, email=email)
    return login is not None and await passwords.matches(login.password_hash, password)


async def find_known_password(connection: Connection) -> str | None:
    """The e-mail address of a user who can sign in with a published password."""
    passwords = Passwords()
    for password in PUBLISHED_PASSWORDS:
        if await password_fits(connection, passwords, DEMO_EMAIL, password):
            return DEMO_EMAIL
    return None


async def refuse_known_password(databases: Databases, settings: Settings) -> None:
    """Refuses to start a control plane that other machines can reach if a user has a published password."""
    if not settings.serves_other_machines:
        return
    async with databases.central.connection() as connection:
        email = await find_known_password(connection)
    if email is not None:
        raise OperatorError(
            f"The operator {email} has the password that older versions of callsheet demo published, and other "
            f"machines could use it: server.host is {settings.server.host}, the public URL is {settings.public_url}. "
            f"Set another password first: {password_command(email)}"
        )
