"""Settings of accounts, sessions and mails."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr

from callsheet.toolbox.sections import Section


class IdentitySettings(Section):
    session_hours: int = Field(336, ge=1, le=8760, description="How long a browser session lasts, in hours.")
    cookie_secure: bool | None = Field(
        None, description="Whether the session cookie requires HTTPS. Default: yes if public_url is https."
    )
    login_attempts: int = Field(
        10,
        ge=1,
        le=1000,
        description="Allowed failed logins at one account from one network address within the window. After that "
        "this network address must wait; others can still sign in to the account.",
    )
    login_attempts_per_account: int = Field(
        100,
        ge=1,
        le=1_000_000,
        description="Allowed failed logins at one account from all network addresses within the window. After that "
        "each network address has one attempt per window, so the account's owner is slowed down but "
        "never locked out.",
    )
    login_attempts_per_address: int = Field(
        50,
        ge=1,
        le=100_000,
        description="Allowed failed logins from one network address within the window, at any account.",
    )
    login_log_days: int = Field(
        30, ge=1, le=36_500, description="How long logins and failed logins are kept in the audit log, in days."
    )
    audit_log_days: int | None = Field(
        730, ge=1, le=36_500, description="How long the audit log is kept, in days. Null: forever."
    )
    login_window_seconds: int = Field(
        300, ge=1, le=86_400, description="Length of the window for failed logins, in seconds."
    )
    invitation_hours: int = Field(168, ge=1, le=8760, description="How long an invitation can be accepted, in hours.")
    external_users_per_tenant: int = Field(
        100_000,
        ge=0,
        le=10_000_000,
        description="How many users of a tenant service keys may create, each for an id of the tenant's own system.",
    )
    reset_minutes: int = Field(
        60, ge=5, le=10_080, description="How long a link to set a new password works, in minutes."
    )


class MailSettings(Section):
    host: str | None = Field(
        None,
        min_length=1,
        description="SMTP server that sends invitations and password resets. Default: none; links are returned to the "
        "operator or tenant admin who creates them.",
    )
    port: int = Field(587, ge=1, le=65535, description="Port of the SMTP server.")
    username: str | None = Field(None, min_length=1, description="User name for the SMTP server. Default: no login.")
    password: SecretStr | None = Field(None, description="Password for the SMTP server.")
    sender: str | None = Field(
        None,
        pattern=r"^[^\r\n]*@[^\r\n]*$",
        description="Sender of the e-mails, for example Callsheet <no-reply@example.com>.",
    )
    tls: Literal["starttls", "tls", "none"] = Field(
        "starttls",
        description="How the connection is encrypted: starttls (port 587), tls from the start (port 465), or none.",
    )
    timeout_seconds: float = Field(10.0, gt=0, le=60, description="Timeout of the SMTP server, in seconds.")
