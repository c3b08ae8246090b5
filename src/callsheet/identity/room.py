"""Builds all parts of the identity room."""

from __future__ import annotations

from dataclasses import dataclass

from callsheet.identity.accounts import Accounts
from callsheet.identity.attempts import Attempts
from callsheet.identity.audit import AuditLog
from callsheet.identity.authentication import Authentication
from callsheet.identity.invitations import Invitations
from callsheet.identity.keys import Keys, KeyUsage
from callsheet.identity.links import Links
from callsheet.identity.mail import Mailer
from callsheet.identity.mail_sender import MailSender
from callsheet.identity.management import UserManagement
from callsheet.identity.one_time_links import OneTimeLinks
from callsheet.identity.password_resets import PasswordResets
from callsheet.identity.passwords import Passwords
from callsheet.identity.quotas import Quotas
from callsheet.identity.sessions import Sessions, SessionSweeper
from callsheet.identity.stream_tokens import StreamTokens
from callsheet.plumbing.databases import Databases
from callsheet.settings import Settings
from callsheet.toolbox.loops import Loop
from callsheet.toolbox.signing import Master


@dataclass(frozen=True, slots=True)
class AccountLinks:
    """Invitations and password resets, and the mails that send their links."""

    invitations: Invitations
    resets: PasswordResets
    mails: MailSender


@dataclass(frozen=True, slots=True)
class IdentityRoom:
    accounts: Accounts
    keys: Keys
    sessions: Sessions
    one_time_links: OneTimeLinks
    authentication: Authentication
    attempts: Attempts
    audit: AuditLog
    management: UserManagement
    links: AccountLinks
    usage: KeyUsage
    sweeper: SessionSweeper
    quotas: Quotas

    @property
    def loops(self) -> tuple[Loop, ...]:
        return (self.usage, self.sweeper, self.links.mails)


def open_identity(databases: Databases, settings: Settings, secret: Master) -> IdentityRoom:
    passwords = Passwords()
    sessions = Sessions(databases, passwords, settings.identity, secret)
    usage = KeyUsage(databases)
    quotas = Quotas(databases, settings.quotas)
    keys = Keys(databases, quotas)
    return IdentityRoom(
        accounts=Accounts(databases, passwords),
        keys=keys,
        sessions=sessions,
        one_time_links=OneTimeLinks(),
        authentication=Authentication(databases, sessions, StreamTokens(secret), usage, settings),
        attempts=Attempts(databases, settings.identity, secret),
        audit=AuditLog(databases),
        management=UserManagement(databases, keys),
        links=open_links(databases, settings, secret),
        usage=usage,
        sweeper=SessionSweeper(databases, settings.identity),
        quotas=quotas,
    )


def open_links(databases: Databases, settings: Settings, secret: Master) -> AccountLinks:
    passwords, attempts = Passwords(), Attempts(databases, settings.identity, secret)
    mailer, links = Mailer(settings.mail), Links(settings)
    mails = MailSender(databases, mailer, links)
    return AccountLinks(
        invitations=Invitations(databases, passwords, mailer, links, settings, wake=mails.wake),
        resets=PasswordResets(databases, passwords, attempts, mailer, links, settings, wake=mails.wake),
        mails=mails,
    )
