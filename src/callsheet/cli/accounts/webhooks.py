"""`callsheet webhooks`: endpoints that get events, and the log of what was sent. HTTP only."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

import typer

from callsheet.cli.shared.console import checked, moment, out, print_json, print_table, require_consent
from callsheet.wire.plurals import counted
from callsheet.wire.webhook_endpoints import (
    ChangeWebhookEndpoint,
    CreateWebhookEndpoint,
    DeliveryStatus,
    ReplayRange,
    WebhookEndpoint,
)

if TYPE_CHECKING:
    from callsheet.cli.shared.webhook_client import WebhookClient

webhooks = typer.Typer(
    help="Webhook endpoints: URLs of your servers that get events of jobs, runs and tokens.", no_args_is_help=True
)

URL = typer.Option(None, "--url", help="URL of the control plane (client.url).")
AS_JSON = typer.Option(False, "--json", help="Print JSON.")
ENDPOINT = typer.Argument(help="Id of the endpoint.")
TIMES = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S"]


@webhooks.command("list")
def list_endpoints(url: str | None = URL, as_json: bool = AS_JSON) -> None:
    """List your endpoints, newest first."""

    async def work(client: WebhookClient) -> None:
        found = await client.endpoints()
        if as_json:
            print_json(found)
            return
        print_table(
            ("id", "url", "scope", "events", "state"),
            [(each.id, each.url, each.scope, _events(each), _state(each)) for each in found],
        )

    _with_client(url, work)


@webhooks.command("create")
def create_endpoint(
    endpoint_url: str = typer.Argument(metavar="URL", help="Where events are sent, for example https://host/path."),
    events: list[str] = typer.Option(
        [],
        "--event",
        help="An event to send, for example job.completed. Can be repeated. Default: those that end a job.",
    ),
    scope: str = typer.Option(
        "user", help="user: events of yours; tenant: all events of your tenant; job: jobs with a webhook URL."
    ),
    description: str = typer.Option("", help="What the endpoint is for."),
    references: list[str] = typer.Option(
        [], "--client-reference", help="Only jobs, runs and batches with this reference. Can be repeated."
    ),
    effects: list[UUID] = typer.Option([], "--effect", help="Only jobs of the effect with this id. Can be repeated."),
    low_balance: int | None = typer.Option(None, help="wallet.low is sent below this number of tokens."),
    url: str | None = URL,
    as_json: bool = AS_JSON,
) -> None:
    """Create an endpoint. Its secret is printed once."""
    given = {"events": events or None, "low_balance": low_balance}
    wanted = checked(
        CreateWebhookEndpoint,
        url=endpoint_url,
        scope=scope,
        description=description,
        client_references=references,
        effect_ids=effects,
        **{name: value for name, value in given.items() if value is not None},
    )

    async def work(client: WebhookClient) -> None:
        created = await client.create(wanted)
        if as_json:
            print_json(created)
        else:
            out.print(f"Endpoint {created.id} gets {_events(created)}.")
            out.print(f"Secret: {created.secret}")
            out.print("It is shown only this once: your server verifies requests with it.")

    _with_client(url, work)


@webhooks.command("test")
def send_test(endpoint: UUID = ENDPOINT, url: str | None = URL, as_json: bool = AS_JSON) -> None:
    """Send the event webhook.test, and show what the endpoint returned."""

    async def work(client: WebhookClient) -> None:
        sent = await client.test(endpoint)
        found = await client.attempted(endpoint, sent)
        if as_json:
            print_json(found)
        elif found.attempted_at is None:
            out.print("The test was not sent yet. See: callsheet webhooks log")
        elif found.status is DeliveryStatus.DELIVERED:
            out.print(f"The endpoint accepted the test with status {found.response_status}.")
        else:
            out.print(f"The endpoint did not accept the test. {found.error}")

    _with_client(url, work)


@webhooks.command("log")
def show_log(
    endpoint: UUID = ENDPOINT,
    status: DeliveryStatus | None = typer.Option(None, help="Only deliveries with this status."),
    limit: int = typer.Option(20, min=1, max=1000, help="Maximum number of deliveries."),
    url: str | None = URL,
    as_json: bool = AS_JSON,
) -> None:
    """Show what was sent to an endpoint, newest first."""

    async def work(client: WebhookClient) -> None:
        found = await client.log(endpoint, status, limit)
        if as_json:
            print_json(found)
            return
        print_table(
            ("id", "time", "event", "about", "status", "attempts", "response", "error"),
            [
                (
                    *(each.id, moment(each.created_at), each.event, each.subject_id or "", each.status, each.attempts),
                    *(each.response_status or "", each.error or ""),
                )
                for each in found
            ],
        )

    _with_client(url, work)


@webhooks.command("redeliver")
def redeliver(
    endpoint: UUID = ENDPOINT,
    delivery: int = typer.Argument(min=1, help="Id of the delivery, from the log."),
    url: str | None = URL,
    as_json: bool = AS_JSON,
) -> None:
    """Send one event again, with the same webhook-id."""

    async def work(client: WebhookClient) -> None:
        sent = await client.redeliver(endpoint, delivery)
        if as_json:
            print_json(sent)
        else:
            out.print(f"Event {sent.id} ({sent.event}) is sent again.")

    _with_client(url, work)


@webhooks.command("replay")
def replay(
    endpoint: UUID = ENDPOINT,
    since: datetime = typer.Option(..., formats=TIMES, help="Events of this time (UTC) or later."),
    until: datetime | None = typer.Option(None, formats=TIMES, help="Events before this time (UTC). Default: now."),
    only_failed: bool = typer.Option(False, "--only-failed", help="Only events that were given up."),
    url: str | None = URL,
    as_json: bool = AS_JSON,
) -> None:
    """Send the events of a time range again."""
    wanted = checked(ReplayRange, since=_utc(since), until=until and _utc(until), only_failed=only_failed)

    async def work(client: WebhookClient) -> None:
        number = await client.replay(endpoint, wanted)
        if as_json:
            print_json({"deliveries": number})
        else:
            out.print(f"{counted(number, 'event')} sent again.")

    _with_client(url, work)


@webhooks.command("rotate")
def rotate(endpoint: UUID = ENDPOINT, url: str | None = URL, as_json: bool = AS_JSON) -> None:
    """Create a new secret. For a day, requests are signed with the old one too."""

    async def work(client: WebhookClient) -> None:
        rotated = await client.rotate(endpoint)
        if as_json:
            print_json(rotated)
        else:
            out.print(f"New secret: {rotated.secret}")
            out.print(f"It is shown only this once. The old one signs, too, until {moment(rotated.old_secret_until)}.")

    _with_client(url, work)


@webhooks.command("enable")
def enable(endpoint: UUID = ENDPOINT, url: str | None = URL, as_json: bool = AS_JSON) -> None:
    """Send events again, after the endpoint was disabled."""
    _change(endpoint, url, as_json, enabled=True)


@webhooks.command("disable")
def disable(endpoint: UUID = ENDPOINT, url: str | None = URL, as_json: bool = AS_JSON) -> None:
    """Write no more events for an endpoint."""
    _change(endpoint, url, as_json, enabled=False)


@webhooks.command("delete")
def delete(
    endpoint: UUID = ENDPOINT,
    yes: bool = typer.Option(False, "--yes", "-y", help="Delete it without confirmation."),
    url: str | None = URL,
) -> None:
    """Delete an endpoint. Its events that wait are not sent any more."""
    require_consent(f"Delete endpoint {endpoint}?", "deleted", yes, "delete it")

    async def work(client: WebhookClient) -> None:
        await client.delete(endpoint)
        out.print(f"Endpoint {endpoint} was deleted.")

    _with_client(url, work)


def _change(endpoint: UUID, url: str | None, as_json: bool, *, enabled: bool) -> None:
    async def work(client: WebhookClient) -> None:
        changed = await client.change(endpoint, ChangeWebhookEndpoint(enabled=enabled))
        if as_json:
            print_json(changed)
        else:
            out.print(f"Endpoint {changed.id} is {_state(changed)}.")

    _with_client(url, work)


def _with_client(url: str | None, work: Callable[[WebhookClient], Awaitable[None]]) -> None:
    from callsheet.cli.shared.login import login_for
    from callsheet.cli.shared.webhook_client import WebhookClient

    async def run() -> None:
        login = login_for(url)
        async with WebhookClient(login.url, login.api_key) as client:
            await work(client)

    asyncio.run(run())


def _utc(value: datetime) -> str:
    return f"{value:%Y-%m-%dT%H:%M:%S}Z"


def _events(endpoint: WebhookEndpoint) -> str:
    return ", ".join(endpoint.events)


def _state(endpoint: WebhookEndpoint) -> str:
    if not endpoint.enabled:
        return "switched off"
    if endpoint.disabled_reason is not None:
        return f"disabled: {endpoint.disabled_reason}"
    return f"failing: {endpoint.last_error}" if endpoint.failures else "enabled"
