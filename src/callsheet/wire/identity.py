"""The models of logins, keys, users and tenants."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal
from uuid import UUID

from pydantic import AwareDatetime, BeforeValidator, Field, StringConstraints

from callsheet.wire.base import PRINTABLE, Line, OptionalLine, ResponseModel, UserRequest, printable
from callsheet.wire.forms import Email, Slug
from callsheet.wire.operate.quotas import Storage
from callsheet.wire.tenant.service_keys import ServiceScope

# Argon2 takes any length; the limit keeps a login from being a way to make the server hash megabytes.
NewPassword = Annotated[str, StringConstraints(min_length=10, max_length=256)]

# The e-mail address that a stranger sends: spelt like `Email`, but anything printable is looked up. So the response
# does not say whether such an e-mail address could exist. The same text is looked up and counted: nothing is removed
# from it later, or each spelling with a NUL would be a new account to the limits and the same one to the lookup.
AnyEmail = Annotated[
    str,
    StringConstraints(strip_whitespace=True, to_lower=True, max_length=254),
    BeforeValidator(printable),
    PRINTABLE,
]


class Role(StrEnum):
    """`user`: the user's own data. `tenant_admin`: also users, keys and jobs of the own tenant. `operator`: everything.
    `viewer`: sees what an operator sees, except payloads and secrets, and changes nothing."""

    USER = "user"
    TENANT_ADMIN = "tenant_admin"
    OPERATOR = "operator"
    VIEWER = "viewer"


class KeyScope(StrEnum):
    """The rights of an API key. `read`: see the user's own data. `submit`: upload, submit, cancel and change. `admin`:
    administration, within the user's role."""

    READ = "read"
    SUBMIT = "submit"
    ADMIN = "admin"


class LoginRequest(UserRequest):
    email: AnyEmail
    password: Annotated[str, StringConstraints(max_length=256)]


class OneTimeLoginRequest(UserRequest):
    token: Annotated[str, StringConstraints(min_length=1, max_length=128)] = Field(
        description="The value after `once=` in the link that `callsheet demo` printed."
    )


class DemoAccount(ResponseModel):
    """The account that the sign-in page offers with one click."""

    email: str | None = Field(description="E-mail address of the account; null if none is offered to you.")


class Me(ResponseModel):
    """The current user."""

    user_id: UUID
    email: str
    name: str
    role: Role
    tenant_id: UUID
    tenant: str
    signed_in_with: Literal["api_key", "session"]
    csrf_token: str | None = Field(
        None,
        description="CSRF token of the session. Send it as X-CSRF-Token with every request that changes something.",
    )
    scopes: list[KeyScope | ServiceScope] | None = Field(
        None, description="Scopes of the API key. Null: everything that the role allows."
    )
    storage: Storage | None = Field(
        None,
        description="Storage that your files use, and its limits. Null while your tenant's pool cannot be reached.",
    )


class Session(ResponseModel):
    """A browser that is signed in."""

    id: UUID = Field(description="Id of the session. It cannot be used to sign in.")
    created_at: datetime
    expires_at: datetime
    last_seen_at: datetime = Field(description="Time of the last request, to about a minute.")
    address: str | None = Field(None, description="Network address that the session was started from.")
    device: str | None = Field(None, description="Browser and operating system, for example `Firefox on Linux`.")
    is_current: bool = Field(description="Whether this is the session of the request.")


class EndedSessions(ResponseModel):
    ended: int = Field(description="Number of ended sessions.")


class CreateKeyRequest(UserRequest):
    name: Line
    scopes: list[KeyScope] | None = Field(
        None,
        min_length=1,
        max_length=len(KeyScope),
        description="What the key may do. Default: everything that the user's role allows.",
    )
    expires_at: AwareDatetime | None = Field(
        None, description="When the key stops working, at most ten years from now. Default: when it is revoked."
    )


class Key(ResponseModel):
    id: UUID
    name: str
    prefix: str = Field(description="The first characters of the key.")
    scopes: list[KeyScope] = Field(description="What the key may do.")
    created_at: datetime
    expires_at: datetime | None = Field(None, description="When the key expires. Null: never.")
    last_used_at: datetime | None = Field(None, description="Time of the last request, to about a minute.")
    revoked_at: datetime | None = None


class CreatedKey(Key):
    key: str = Field(description="The key itself. It is shown only this once.")


class CreateTenantRequest(UserRequest):
    slug: Slug
    name: Line
    pool: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,62}$")] | None = Field(
        None, description="The pool that holds the tenant's data. Default: the pool with the fewest tenants."
    )


class Tenant(ResponseModel):
    id: UUID
    slug: str
    name: str
    pool: str
    created_at: datetime
    disabled_at: datetime | None = Field(
        None, description="When the tenant was disabled. Its users are refused since then."
    )


class CreateUserRequest(UserRequest):
    tenant: Slug
    email: Email
    password: NewPassword
    name: OptionalLine = ""
    role: Role = Role.USER


class User(ResponseModel):
    id: UUID
    tenant_id: UUID
    tenant: str
    email: str
    name: str
    role: Role
    external_id: str | None = Field(
        None, description="What the system of the tenant calls the user, if a service key created the user."
    )
    created_at: datetime
    disabled_at: datetime | None = Field(
        None, description="When the user was disabled. The user's keys and sessions are refused since then."
    )
    deleted_at: datetime | None = Field(
        None,
        description="When the user was deleted. The e-mail address and name are removed; jobs and ledger keep the id.",
    )


class ChangeRoleRequest(UserRequest):
    role: Role


class CreateInvitationRequest(UserRequest):
    tenant: Slug
    email: Email
    role: Role = Role.USER


class Invitation(ResponseModel):
    id: UUID = Field(description="Id of the invitation, and of the user who accepts it.")
    tenant: str
    email: str
    role: Role
    invited_by: str
    created_at: datetime
    expires_at: datetime
    mail_sent_at: datetime | None = Field(None, description="When the mail server accepted the mail.")
    mail_error: str | None = Field(None, description="Why the last attempt to send the mail failed.")
    accepted_at: datetime | None = None
    revoked_at: datetime | None = None


class CreatedInvitation(Invitation):
    link: str | None = Field(
        None,
        description="Link to send to the person. It is shown only this once. Null if the server sends it by e-mail.",
    )


class OpenInvitation(ResponseModel):
    """The invitation, as the holder of its link sees it."""

    tenant: str
    tenant_name: str
    email: str
    role: Role
    expires_at: datetime


class AcceptInvitationRequest(UserRequest):
    password: NewPassword
    name: OptionalLine = ""


class AskPasswordReset(UserRequest):
    email: AnyEmail


class PasswordResetRequested(ResponseModel):
    """The same response for every e-mail address, whether it belongs to a user or not."""

    message: str


class SetPasswordRequest(UserRequest):
    password: NewPassword


class ChangePasswordRequest(UserRequest):
    current_password: Annotated[str, StringConstraints(max_length=256)]
    new_password: NewPassword


class ResetLink(ResponseModel):
    link: str = Field(description="Link to send to the user. It works once and is shown only this once.")
    expires_at: datetime


class Mail(ResponseModel):
    """An e-mail that the mail server has not accepted yet."""

    id: int
    kind: Literal["invitation", "password_reset"]
    email: str
    created_at: datetime
    attempts: int
    last_error: str | None = None
    due_at: datetime = Field(description="When the next attempt is made.")
    failed_at: datetime | None = Field(
        None, description="When Callsheet stopped trying to send it. Send it again, or invite the person again."
    )
