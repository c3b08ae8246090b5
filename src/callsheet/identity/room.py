"""The identity room: its parts and its routes."""

from __future__ import annotations

from dataclasses import dataclass

from callsheet.identity.access.attempts import Attempts
from callsheet.identity.access.authentication import Authentication
from callsheet.identity.access.kept_responses import KeptResponses
from callsheet.identity.access.keys import Keys, KeyUsage
from callsheet.identity.access.one_time_links import OneTimeLinks
from callsheet.identity.access.passwords import Passwords
from callsheet.identity.access.service_keys import ServiceKeys
from callsheet.identity.access.sessions import Sessions, SessionSweeper
from callsheet.identity.access.stream_tokens import StreamTokens
from callsheet.identity.accounts.accounts import Accounts
from callsheet.identity.accounts.deletion import UserDeletion
from callsheet.identity.accounts.management import UserManagement
from callsheet.identity.accounts.management_routes import (
    service_key_router,
    tenant_management_router,
    user_credential_router,
    user_management_router,
)
from callsheet.identity.accounts.quotas import Quotas
from callsheet.identity.accounts.tenant_pools import TenantRouting
from callsheet.identity.audit_log import AuditLog
from callsheet.identity.audit_log_routes import audit_router
from callsheet.identity.links.invitations import Invitations
from callsheet.identity.links.link_pages import link_page_router
from callsheet.identity.links.link_routes import admin_link_router, link_router
from callsheet.identity.links.links import Links
from callsheet.identity.links.mail import Mailer
from callsheet.identity.links.mail_sender import MailSender
from callsheet.identity.links.password_resets import PasswordResets
from callsheet.identity.routes import StorageOf, account_router, key_router, session_list_router, session_router
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.http.routing import Router
from callsheet.plumbing.room import Room
from callsheet.settings import Settings
from callsheet.toolbox.loops import Loop
from callsheet.toolbox.signing import Master


@dataclass(frozen=True, slots=True)
class AccountLinks:
    """Invitations and password resets, and the mails that send their links."""

    invitations: Invitations
    resets: PasswordResets
    mailer: Mailer
    mails: MailSender


@dataclass(frozen=True, slots=True)
class AccountsRoom(Room):
    """The accounts without what signs and sends. It needs no secret key, so that commands about accounts work on a
    machine without the key.
    """

    passwords: Passwords
    quotas: Quotas
    accounts: Accounts
    keys: Keys
    service_keys: ServiceKeys
    management: UserManagement
    audit: AuditLog
    routing: TenantRouting


@dataclass(frozen=True, slots=True)
class IdentityRoom(Room):
    accounts: Accounts
    keys: Keys
    service_keys: ServiceKeys
    sessions: Sessions
    one_time_links: OneTimeLinks
    authentication: Authentication
    kept_responses: KeptResponses
    attempts: Attempts
    audit: AuditLog
    management: UserManagement
    links: AccountLinks
    usage: KeyUsage
    sweeper: SessionSweeper
    quotas: Quotas
    routing: TenantRouting

    @property
    def loops(self) -> tuple[Loop, ...]:
        return (self.usage, self.sweeper, self.links.mails)


def open_accounts(databases: Databases, settings: Settings) -> AccountsRoom:
    passwords, quotas = Passwords(), Quotas(databases, settings.quotas)
    keys = Keys(databases, quotas)
    return AccountsRoom(
        passwords=passwords,
        quotas=quotas,
        accounts=Accounts(databases, passwords),
        keys=keys,
        service_keys=ServiceKeys(databases),
        management=UserManagement(databases, keys),
        audit=AuditLog(databases),
        routing=TenantRouting(databases),
    )


def open_identity(databases: Databases, settings: Settings, secret: Master, accounts: AccountsRoom) -> IdentityRoom:
    attempts = Attempts(databases, settings.identity, secret)
    sessions = Sessions(databases, accounts.passwords, settings.identity, secret, attempts)
    usage = KeyUsage(databases)
    return IdentityRoom(
        accounts=accounts.accounts,
        keys=accounts.keys,
        service_keys=accounts.service_keys,
        sessions=sessions,
        one_time_links=OneTimeLinks(),
        authentication=Authentication(databases, sessions, StreamTokens(secret), usage, settings),
        kept_responses=KeptResponses(databases, secret),
        attempts=attempts,
        audit=accounts.audit,
        management=accounts.management,
        links=open_links(databases, settings, accounts.passwords, attempts),
        usage=usage,
        sweeper=SessionSweeper(databases, settings.identity),
        quotas=accounts.quotas,
        routing=accounts.routing,
    )


def open_links(databases: Databases, settings: Settings, passwords: Passwords, attempts: Attempts) -> AccountLinks:
    mailer, links = Mailer(settings.mail), Links(settings)
    mails = MailSender(databases, mailer, links)
    return AccountLinks(
        invitations=Invitations(databases, passwords, mailer, links, settings, wake=mails.wake),
        resets=PasswordResets(databases, passwords, attempts, mailer, links, settings, wake=mails.wake),
        mailer=mailer,
        mails=mails,
    )


def identity_routers(
    identity: IdentityRoom, settings: Settings, storage_of: StorageOf, deletion: UserDeletion
) -> list[Router]:
    authentication = identity.authentication
    return [
        session_router(identity.sessions, identity.one_time_links, authentication, settings, storage_of),
        session_list_router(identity.sessions, authentication, settings),
        key_router(identity.keys, authentication),
        link_router(identity.links, authentication),
        link_page_router(identity.links),
        account_router(identity.accounts, authentication),
        user_management_router(identity.management, deletion, authentication),
        user_credential_router(identity.management, authentication),
        tenant_management_router(identity.accounts, identity.management, authentication),
        service_key_router(identity.accounts, identity.service_keys, authentication),
        admin_link_router(identity.links, authentication),
        audit_router(identity.audit, authentication),
    ]
