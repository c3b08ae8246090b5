"""Public links to results. Owners create and revoke them, and anyone with the link can open it.

A link is a random token; the database has its hash. Each request looks up the link, so it ends with the commit that
revokes it, deletes its job, or disables its user or tenant.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from callsheet.identity.access.keys import hash_secret
from callsheet.identity.access.principal import Principal
from callsheet.identity.audit_log import record, user_actor
from callsheet.jobs.show.descriptions import medium_of
from callsheet.jobs.show.reader import JobReader
from callsheet.media.files import Files
from callsheet.media.previews.maker import CONTENT_TYPES, preview_folder
from callsheet.media.previews.program import LARGE
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.pages import page_of
from callsheet.plumbing.database.sql import statements
from callsheet.settings import Settings
from callsheet.toolbox.ids import secret_token, uuid7
from callsheet.toolbox.loops import Loop
from callsheet.wire.base import Page
from callsheet.wire.errors import Forbidden, InvalidRequest, NotFound, QuotaExceeded, WrongState
from callsheet.wire.jobs import JobStatus
from callsheet.wire.library import CreatedShareLink, CreateShareLink, Medium, SharedFile, SharedResult, ShareLink
from callsheet.wire.plurals import counted

SQL = statements("callsheet.library", "share_statements.sql")
POOL = statements("callsheet.library")
PREFIX = "csp"
_TOKEN = re.compile(rf"{PREFIX}_[0-9A-Za-z]{{43}}")
# No user needs more links, and each link is a line in the audit log.
LINKS_PER_USER, NEW_LINKS_PER_HOUR = 1000, 100
MAX_FILES = 20
BEFORE, AFTER, POSTER = "before", "after", "-poster"


class ShareRow(NamedTuple):
    id: UUID
    tenant_id: UUID
    user_id: UUID
    job_id: UUID
    shows_prompt: bool
    shows_input: bool
    expires_at: datetime
    pool: str


class ShareCounts(NamedTuple):
    open: int
    new: int


class SharedFileRow(NamedTuple):
    title: str | None
    prompt: str | None
    kind: str
    tenant_id: UUID
    # 0 for the input, 1 for the main output, 2 for the other outputs.
    place: int
    id: UUID
    path: str
    disk: str
    mime_type: str
    width: int | None
    height: int | None
    duration_seconds: float | None


class SharedObject(NamedTuple):
    path: str
    mime_type: str


@dataclass(frozen=True, slots=True)
class OpenShare:
    """A valid link, and its files by their name in URLs. The input (`before`) is included only if the link shows it."""

    link: ShareRow
    title: str
    prompt: str | None
    files: dict[str, SharedFileRow]


class Shares:
    def __init__(self, databases: Databases, reader: JobReader, files: Files, settings: Settings, openings: Openings):
        self._databases = databases
        self._reader = reader
        self._files = files
        self._settings = settings
        self._openings = openings

    async def create(self, principal: Principal, job_id: UUID, wanted: CreateShareLink) -> CreatedShareLink:
        """Creates a link. Refused if the job is not the caller's own, or has no file to show."""
        days = self._days(wanted)
        row = (await self._reader.job(principal, job_id)).row
        if row.status != JobStatus.COMPLETED:
            raise WrongState(f"The job is {row.status}. Only the result of a completed job can be shared.")
        if not await self._shared_files(principal.pool, principal.tenant_id, principal.user_id, job_id):
            raise WrongState("The job has no file to share.")
        token = secret_token(PREFIX)
        async with self._databases.central.transaction() as connection:
            await SQL["lock_owner"].run(connection, user_id=principal.user_id)
            counted = await SQL["count_shares"].row(connection, ShareCounts, user_id=principal.user_id)
            assert counted is not None
            _check_number(counted.open, counted.new)
            created = await SQL["create_share"].row(
                connection,
                ShareLink,
                id=uuid7(),
                token_hash=hash_secret(token),
                tenant_id=principal.tenant_id,
                user_id=principal.user_id,
                job_id=job_id,
                shows_prompt=wanted.show_prompt,
                shows_input=wanted.show_input,
                days=days,
            )
            assert created is not None
            await record(
                connection,
                user_actor(principal.user_id),
                "share.create",
                "job",
                job_id,
                principal.tenant_id,
                share_id=created.id,
                expires_at=created.expires_at.isoformat(),
            )
        return CreatedShareLink(**dict(created), url=f"{self._settings.public_url}/share/{token}")

    async def page(self, principal: Principal, job_id: UUID | None, cursor: UUID | None, limit: int) -> Page[ShareLink]:
        """The valid links of the user, newest first: all, or those of one job."""
        if job_id is not None:
            await self._reader.job(principal, job_id)
        async with self._databases.central.ordinary() as connection:
            links = await SQL["list_shares"].rows(
                connection, ShareLink, user_id=principal.user_id, job_id=job_id, before=cursor, limit=limit + 1
            )
        return page_of(links, limit)

    async def revoke(self, principal: Principal, job_id: UUID, share_id: UUID) -> None:
        """Revokes a link. Revoking again changes nothing."""
        names = {"id": share_id, "user_id": principal.user_id, "job_id": job_id}
        async with self._databases.central.transaction() as connection:
            if await SQL["revoke_share"].value(connection, **names) is None:
                if not await SQL["share_exists"].value(connection, **names):
                    raise NotFound("There is no such link.")
                return
            actor, tenant_id = user_actor(principal.user_id), principal.tenant_id
            await record(connection, actor, "share.revoke", "job", job_id, tenant_id, share_id=share_id)

    async def open(self, token: str) -> OpenShare:
        """The result of a link. An invalid token needs one query, a valid one needs two."""
        if not self._settings.sharing.enabled or not _TOKEN.fullmatch(token):
            raise _no_such_link()
        async with self._databases.central.connection() as connection:
            link = await SQL["find_share"].row(connection, ShareRow, token_hash=hash_secret(token))
        if link is None:
            raise _no_such_link()
        rows = await self._shared_files(link.pool, link.tenant_id, link.user_id, link.job_id)
        if not rows:
            raise _no_such_link()
        made = [row for row in rows if row.place > 0]
        files = {AFTER if number == 1 else f"{AFTER}-{number}": row for number, row in enumerate(made, 1)}
        if link.shows_input and rows[0].place == 0:
            files[BEFORE] = rows[0]
        prompt = rows[0].prompt if link.shows_prompt else None
        return OpenShare(link, rows[0].title or rows[0].kind, prompt, files)

    async def result(self, token: str) -> SharedResult:
        opened = await self.open(token)
        self._openings.record(opened.link.id)
        shown = {
            name: SharedFile(
                medium=Medium(medium_of(row.mime_type)),
                mime_type=row.mime_type,
                url=f"/api/shares/{token}/media/{name}",
                poster_url=f"/api/shares/{token}/media/{name}{POSTER}" if row.width else None,
                width=row.width,
                height=row.height,
                duration_seconds=row.duration_seconds,
            )
            for name, row in opened.files.items()
        }
        return SharedResult(
            title=opened.title,
            prompt=opened.prompt,
            before=shown.pop(BEFORE, None),
            after=shown.pop(AFTER),
            more=list(shown.values()),
            expires_at=opened.link.expires_at,
        )

    async def file(self, token: str, name: str) -> SharedObject:
        """The object of a file, or of its poster."""
        row = (await self.open(token)).files.get(name.removesuffix(POSTER))
        if row is None:
            raise _no_such_link()
        if not name.endswith(POSTER):
            return SharedObject(row.path, row.mime_type)
        return SharedObject(f"{preview_folder(row.tenant_id, row.id)}/{LARGE}", CONTENT_TYPES[LARGE])

    async def _shared_files(
        self, pool_name: str, tenant_id: UUID, user_id: UUID, job_id: UUID
    ) -> Sequence[SharedFileRow]:
        """The files of the job; empty if it has no output in the current storage backend."""
        pool = await self._databases.pool(pool_name)
        async with pool.ordinary() as connection:
            rows = await POOL["shared_job"].rows(
                connection, SharedFileRow, tenant_id=tenant_id, user_id=user_id, job_id=job_id, max_rows=MAX_FILES
            )
        found = [row for row in rows if row.disk == self._files.disk]
        return found if any(row.place > 0 for row in found) else []

    def _days(self, wanted: CreateShareLink) -> int:
        sharing = self._settings.sharing
        if not sharing.enabled:
            raise Forbidden("Public links are switched off in this installation (sharing.enabled).")
        days = wanted.expires_in_days or min(sharing.link_days, sharing.max_link_days)
        if days > sharing.max_link_days:
            reason = f"A link can be valid for at most {counted(sharing.max_link_days, 'day')} here, not {days}."
            raise InvalidRequest.field("expires_in_days", reason)
        return days


class Openings(Loop):
    """Records how often links were opened: outside the requests, once a minute for all links. Deletes links a day
    after their end.
    """

    name = "share_openings"
    interval_seconds = 60.0
    batch = 1000

    def __init__(self, databases: Databases):
        super().__init__()
        self._databases = databases
        self._counts: Counter[UUID] = Counter()
        self._last: dict[UUID, datetime] = {}

    def record(self, share_id: UUID) -> None:
        self._counts[share_id] += 1
        self._last[share_id] = self._clock.now()

    async def tick(self, now: datetime) -> None:
        counts, self._counts = self._counts, Counter()
        last, self._last = self._last, {}
        try:
            async with self._databases.central.ordinary() as connection, connection.transaction():
                if counts:
                    times = [counts[share_id] for share_id in counts]
                    at = [last[share_id] for share_id in counts]
                    await SQL["add_openings"].run(connection, ids=list(counts), times=times, at=at)
                await SQL["sweep_shares"].run(connection, before=now - timedelta(days=1), limit=self.batch)
        except BaseException:
            self._counts.update(counts)
            self._last = {**last, **self._last}
            raise


def _check_number(open_links: int, new: int) -> None:
    if open_links >= LINKS_PER_USER:
        detail = f"You have {counted(open_links, 'public link')}, and the limit is {LINKS_PER_USER}. Revoke some."
        raise QuotaExceeded("share_links", open_links, LINKS_PER_USER, detail)
    if new >= NEW_LINKS_PER_HOUR:
        links = counted(new, "public link")
        detail = f"You created {links} within an hour, and the limit is {NEW_LINKS_PER_HOUR}. Try again later."
        raise QuotaExceeded("new_share_links", new, NEW_LINKS_PER_HOUR, detail)


def _no_such_link() -> NotFound:
    return NotFound("There is no such link: it has expired or was revoked, or its result was deleted.")
