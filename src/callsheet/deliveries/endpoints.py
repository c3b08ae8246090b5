"""The webhook endpoints of users: create, list, change, delete, rotate the secret, test, and send events again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from uuid import UUID

from callsheet.deliveries.endpoint_secrets import EndpointSecrets
from callsheet.deliveries.sender import webhook_id
from callsheet.identity.access.permissions import Permission
from callsheet.identity.access.principal import Principal
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.pages import page_of
from callsheet.plumbing.database.sql import statements
from callsheet.settings.deliveries import DeliverySettings
from callsheet.toolbox.http.addresses import Network, is_loopback_url, is_refused_host
from callsheet.toolbox.ids import uuid7
from callsheet.wire.base import Page
from callsheet.wire.errors import Forbidden, InvalidRequest, NotFound, QuotaExceeded
from callsheet.wire.plurals import counted
from callsheet.wire.webhook_endpoints import (
    ChangeWebhookEndpoint,
    CreatedWebhookEndpoint,
    CreateWebhookEndpoint,
    Delivery,
    DeliveryStatus,
    EndpointScope,
    Replayed,
    ReplayRange,
    RotatedSecret,
    WebhookEndpoint,
)

SQL = statements("callsheet.deliveries")
TEST = "webhook.test"
# A receiver has a day to take the new secret.
OLD_SECRET_SECONDS = 86_400.0
MAX_REPLAYED = 1000
NO_ENDPOINT = "There is no such webhook endpoint."


class DeliveryRow(NamedTuple):
    id: int
    event: str
    subject_id: UUID | None
    url: str | None
    status: str
    created_at: datetime
    attempts: int
    attempted_at: datetime | None
    next_attempt_at: datetime | None
    ended_at: datetime | None
    body: dict[str, Any]
    response_status: int | None
    response_text: str | None
    error: str | None
    milliseconds: int | None


class EndpointCounts(NamedTuple):
    of_user: int
    of_tenant: int


class ReplayRow(NamedTuple):
    deliveries: int
    next_since: datetime | None


class Endpoints:
    def __init__(
        self,
        databases: Databases,
        secrets: EndpointSecrets,
        settings: DeliverySettings,
        allow_networks: Iterable[Network] = (),
    ):
        self._databases = databases
        self._secrets = secrets
        self._settings = settings
        self._allow_networks = tuple(allow_networks)

    async def create(self, principal: Principal, wanted: CreateWebhookEndpoint) -> CreatedWebhookEndpoint:
        self._check_url(wanted.url)
        if wanted.scope is EndpointScope.TENANT and not _sees_tenant(principal):
            raise Forbidden("Only administrators of the tenant can create an endpoint for all of its jobs.")
        secret, sealed = self._secrets.new()
        pool = await self._pool(principal)
        async with pool.transaction() as connection:
            owner = {"tenant_id": principal.tenant_id, "user_id": principal.user_id}
            await SQL["lock_owner"].run(connection, tenant_id=principal.tenant_id)
            found = await SQL["count_endpoints"].row(connection, EndpointCounts, **owner)
            assert found is not None
            self._check_number(found)
            created = await SQL["create_endpoint"].row(
                connection,
                WebhookEndpoint,
                **owner,
                id=uuid7(),
                **_columns(wanted.model_dump()),
                sealed_secret=sealed,
                sealed_with=self._secrets.sealed_with,
            )
        assert created is not None
        return CreatedWebhookEndpoint(**dict(created), secret=secret)

    async def page(self, principal: Principal, cursor: UUID | None, limit: int) -> Page[WebhookEndpoint]:
        pool = await self._pool(principal)
        async with pool.ordinary() as connection:
            found = await SQL["list_endpoints"].rows(
                connection, WebhookEndpoint, **_caller(principal), before=cursor, limit=limit + 1
            )
        return page_of(found, limit)

    async def get(self, principal: Principal, endpoint_id: UUID) -> WebhookEndpoint:
        pool = await self._pool(principal)
        async with pool.ordinary() as connection:
            found = await SQL["get_endpoint"].row(connection, WebhookEndpoint, **_caller(principal), id=endpoint_id)
        if found is None:
            raise NotFound(NO_ENDPOINT)
        return found

    async def change(self, principal: Principal, endpoint_id: UUID, wanted: ChangeWebhookEndpoint) -> WebhookEndpoint:
        if wanted.url is not None:
            self._check_url(wanted.url)
        pool = await self._pool(principal)
        async with pool.ordinary() as connection:
            changed = await SQL["change_endpoint"].row(
                connection, WebhookEndpoint, **_caller(principal), id=endpoint_id, **_columns(wanted.model_dump())
            )
        if changed is None:
            raise NotFound(NO_ENDPOINT)
        return changed

    async def delete(self, principal: Principal, endpoint_id: UUID) -> None:
        pool = await self._pool(principal)
        async with pool.ordinary() as connection:
            if await SQL["delete_endpoint"].value(connection, **_caller(principal), id=endpoint_id) is None:
                raise NotFound(NO_ENDPOINT)

    async def rotate_secret(self, principal: Principal, endpoint_id: UUID) -> RotatedSecret:
        secret, sealed = self._secrets.new()
        pool = await self._pool(principal)
        async with pool.ordinary() as connection:
            until = await SQL["rotate_secret"].value(
                connection,
                **_caller(principal),
                id=endpoint_id,
                sealed_secret=sealed,
                sealed_with=self._secrets.sealed_with,
                seconds=OLD_SECRET_SECONDS,
            )
        if until is None:
            raise NotFound(NO_ENDPOINT)
        return RotatedSecret(secret=secret, old_secret_until=until)

    async def write_test(self, principal: Principal, endpoint_id: UUID) -> Delivery:
        pool = await self._pool(principal)
        async with pool.transaction() as connection:
            number = await SQL["write_test"].value(
                connection, **_caller(principal), id=endpoint_id, event=TEST, data={"message": "This is a test."}
            )
            await SQL["end_pause"].run(connection, tenant_id=principal.tenant_id, id=endpoint_id)
        if number is None:
            raise NotFound(NO_ENDPOINT)
        return (await self.deliveries(principal, endpoint_id, None, number + 1, 1)).items[0]

    async def deliveries(
        self, principal: Principal, endpoint_id: UUID, status: DeliveryStatus | None, before: int | None, limit: int
    ) -> Page[Delivery]:
        """The log of an endpoint, newest first."""
        await self.get(principal, endpoint_id)
        pool = await self._pool(principal)
        async with pool.ordinary() as connection:
            rows = await SQL["list_deliveries"].rows(
                connection,
                DeliveryRow,
                tenant_id=principal.tenant_id,
                endpoint_id=endpoint_id,
                status=status,
                before=before,
                limit=limit + 1,
            )
        shown = [_delivery(endpoint_id, row) for row in rows[:limit]]
        return Page(items=shown, next_cursor=str(shown[-1].id) if len(rows) > limit else None)

    async def redeliver(self, principal: Principal, endpoint_id: UUID, number: int) -> Delivery:
        await self.get(principal, endpoint_id)
        pool = await self._pool(principal)
        async with pool.transaction() as connection:
            row = await SQL["redeliver"].row(
                connection, DeliveryRow, tenant_id=principal.tenant_id, endpoint_id=endpoint_id, number=number
            )
            await SQL["end_pause"].run(connection, tenant_id=principal.tenant_id, id=endpoint_id)
        if row is None:
            raise NotFound("There is no such delivery. Old ones are deleted.")
        return _delivery(endpoint_id, row)

    async def replay(self, principal: Principal, endpoint_id: UUID, wanted: ReplayRange) -> Replayed:
        """Sends the events of a time range again."""
        await self.get(principal, endpoint_id)
        pool = await self._pool(principal)
        async with pool.transaction() as connection:
            row = await SQL["replay"].row(
                connection,
                ReplayRow,
                tenant_id=principal.tenant_id,
                endpoint_id=endpoint_id,
                since=wanted.since,
                until=wanted.until,
                only_failed=wanted.only_failed,
                limit=MAX_REPLAYED,
            )
            await SQL["end_pause"].run(connection, tenant_id=principal.tenant_id, id=endpoint_id)
        assert row is not None
        return Replayed(deliveries=row.deliveries, has_more=row.next_since is not None, next_since=row.next_since)

    async def _pool(self, principal: Principal) -> Database:
        return await self._databases.pool(principal.pool)

    def _check_number(self, found: EndpointCounts) -> None:
        for owner, number, limit in (
            ("You have", found.of_user, self._settings.endpoints_per_user),
            ("Your tenant has", found.of_tenant, self._settings.endpoints_per_tenant),
        ):
            if number >= limit:
                detail = f"{owner} {counted(number, 'webhook endpoint')}, and the limit is {limit}. Delete one."
                raise QuotaExceeded("webhook_endpoints", number, limit, detail)

    def _check_url(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            is_whole = bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_whole = False
        if (
            not is_whole
            or parts.scheme not in ("https", "http")
            or not url.isascii()
            or not url.isprintable()
            or " " in url
        ):
            raise InvalidRequest.field("url", "Use a URL like https://shop.example.com/callsheet.")
        if parts.username is not None or parts.password is not None:
            raise InvalidRequest.field("url", "A URL with a user name or a password is not accepted.")
        if parts.scheme == "http" and not self._settings.allow_http and not is_loopback_url(url):
            raise InvalidRequest.field("url", "Use https://. Requests over http:// could be read on their way.")
        # Other names are looked up at each request, because they may lead elsewhere by then.
        if is_refused_host(parts.hostname or "", self._allow_networks):
            raise InvalidRequest.field(
                "url",
                f"The host {parts.hostname} is in a private or reserved network. "
                "The operator can allow its network with outgoing.allow_networks.",
            )


def _sees_tenant(principal: Principal) -> bool:
    return principal.may(Permission.SEE_JOBS)


def _caller(principal: Principal) -> Mapping[str, Any]:
    return {
        "tenant_id": principal.tenant_id,
        "user_id": principal.user_id,
        "sees_tenant": _sees_tenant(principal),
    }


def _columns(values: dict[str, Any]) -> dict[str, Any]:
    """The values of a message as columns: without repetitions, in the order that the client chose."""
    for name in ("events", "effect_ids", "client_references"):
        if values.get(name) is not None:
            values[name] = list(dict.fromkeys(values[name]))
    return values


def _delivery(endpoint_id: UUID, row: DeliveryRow) -> Delivery:
    return Delivery(**row._asdict(), webhook_id=webhook_id(endpoint_id, row.id))
