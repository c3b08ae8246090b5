"""New passwords: by a link, or by a user who knows the current password."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from callsheet.identity.access.attempts import Attempts
from callsheet.identity.access.credentials import end_all
from callsheet.identity.access.keys import hash_secret
from callsheet.identity.access.login_audit import LoginAudit
from callsheet.identity.access.passwords import Passwords
from callsheet.identity.access.principal import Principal
from callsheet.identity.accounts.management import lock_user
from callsheet.identity.accounts.managers import Manager
from callsheet.identity.audit_log import record, user_actor
from callsheet.identity.links.links import RESET, Links, find_by_link, replace_password, using_link
from callsheet.identity.links.mail import Mailer
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements
from callsheet.settings import Settings
from callsheet.wire.errors import FieldProblem, Forbidden
from callsheet.wire.identity import ChangePasswordRequest, ResetLink

SQL = statements("callsheet.identity.links")

# Maximum number of mails to one e-mail address within a window.
RESETS_PER_ADDRESSEE = 3


class PasswordResets:
    def __init__(
        self,
        databases: Databases,
        passwords: Passwords,
        attempts: Attempts,
        mailer: Mailer,
        links: Links,
        settings: Settings,
        wake: Callable[[], None],
    ):
        self._databases = databases
        self._passwords = passwords
        self._attempts = attempts
        self._audit = LoginAudit(databases, attempts)
        self._mailer = mailer
        self._links = links
        self._settings = settings.identity
        self._wake = wake

    async def ask(self, email: str, address: str) -> bool:
        """Requests a mail with a link. Returns whether this installation sends mails. Everything else is the same
        for known and unknown e-mail addresses: the user is looked up when the mail is sent.
        """
        limits = {
            self._attempts.bucket("reset", email): RESETS_PER_ADDRESSEE,
            self._attempts.address(address, "reset-address"): self._settings.login_attempts_per_address,
        }
        await self._attempts.count("password-resets", limits)
        if not self._mailer.is_configured:
            return False
        async with self._databases.central.transaction() as connection:
            await SQL["mail_reset"].run(connection, email=email)
        self._wake()
        return True

    async def create_link(self, manager: Manager, user_id: UUID) -> ResetLink:
        """A link that an operator or tenant admin gives to the user."""
        async with self._databases.central.transaction() as connection:
            user = await lock_user(connection, manager, user_id)
            link = await self._links.to_reset(connection, user_id)
            await record(connection, manager.actor, "user.reset_password", "user", user_id, user.tenant_id)
        return link

    async def find(self, token: str) -> str:
        """The e-mail address that a link is for."""
        return (await find_by_link(self._databases, RESET, token)).email

    async def set_password(self, token: str, password: str) -> None:
        """Sets a password. This works once per link. Ends every session and key of the user and every other link."""
        async with using_link(self._databases, self._passwords, RESET, token, password) as used:
            connection, user, password_hash = used
            revoked = await replace_password(connection, user.id, password_hash)
            await record(
                connection,
                user_actor(user.id),
                "user.password",
                "user",
                user.id,
                user.tenant_id,
                by="link",
                keys_revoked=revoked,
            )

    async def change(
        self, principal: Principal, request: ChangePasswordRequest, address: str, kept: str | None
    ) -> None:
        """Changes the password of a user who knows the current one. Guesses count like those at the login. Changes
        are limited too; otherwise a user could fill the audit log. Ends every key and every session except the one
        with the token `kept`: a user who suspects a thief must not be signed out too.
        """
        await self._attempts.count_login(principal.email, address)
        async with self._databases.central.connection() as connection:
            checked = await SQL["find_password"].value(connection, user_id=principal.user_id)
        if not await self._passwords.matches(checked, request.current_password):
            await self._audit.failed((principal.user_id, principal.tenant_id), address, "password change")
            raise _wrong_password("This is not your current password. Check it and try again.")
        fresh = await self._passwords.hash(request.new_password)
        names = {"user_id": principal.user_id}
        async with self._databases.central.transaction() as connection:
            if not await SQL["change_password"].run(connection, **names, checked=checked, fresh=fresh):
                raise _wrong_password("Another request changed your password. Sign in with the new password.")
            revoked = await end_all(connection, principal.user_id, hash_secret(kept) if kept is not None else None)
            await record(
                connection,
                user_actor(principal.user_id),
                "user.password",
                "user",
                principal.user_id,
                principal.tenant_id,
                by="password",
                keys_revoked=revoked,
            )


def _wrong_password(reason: str) -> Forbidden:
    # The status is not 422, because a schema cannot describe the right password. It is not 401 either, because the
    # caller is signed in.
    return Forbidden(reason, errors=[FieldProblem("current_password", reason)])
