"""What lets a user in ends on all control planes at once, for the streams that are open too.

Streams look for themselves only every hour here, so that nothing but the notification can end them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.identity.accounts.management import UserManagement
from callsheet.identity.accounts.managers import COMMAND_LINE
from callsheet.jobs.stream import feeds as feeds_module
from callsheet.jobs.stream.feeds import Feeds, News
from callsheet.jobs.stream.positions import START, Position
from tests.support.http.accounts import PASSWORD, People, Person, session_of
from tests.support.http.event_stream import EventStream
from tests.support.http.responses import assert_refused

ALL = "/api/ai-jobs/stream"
CHANGED = "another long password"


class SignedInUser:
    """Ann, signed in with a key and a session, and an operator, at one control plane; her streams are at another."""

    def __init__(self, plane: ControlPlane, client: httpx.AsyncClient, ann: Person, operator: Person):
        self.plane = plane
        self.client = client
        self.ann = ann
        self.operator = operator
        self.session: dict[str, str] = {}

    @property
    def of_ann(self) -> str:
        return f"/api/admin/users/{self.ann.user.id}"

    @property
    def commands(self) -> UserManagement:
        """What the command line works with."""
        return UserManagement(self.plane.databases, self.plane.rooms.identity.keys)

    async def ask(self, method: str, path: str, headers: dict[str, str], **body: object) -> httpx.Response:
        response = await self.client.request(method, path, headers=headers, **({"json": body} if body else {}))
        assert response.is_success, response.text
        return response


async def disable_user(signed_in_user: SignedInUser) -> None:
    await signed_in_user.ask("POST", f"{signed_in_user.of_ann}/disable", signed_in_user.operator.headers)


async def disable_user_by_command(signed_in_user: SignedInUser) -> None:
    await signed_in_user.commands.disable(COMMAND_LINE, signed_in_user.ann.user.id)


async def disable_tenant(signed_in_user: SignedInUser) -> None:
    await signed_in_user.ask(
        "POST", f"/api/admin/tenants/{signed_in_user.ann.tenant.id}/disable", signed_in_user.operator.headers
    )


async def disable_tenant_by_command(signed_in_user: SignedInUser) -> None:
    await signed_in_user.commands.disable_tenant(COMMAND_LINE, signed_in_user.ann.tenant.id)


async def delete_user(signed_in_user: SignedInUser) -> None:
    await signed_in_user.ask("DELETE", signed_in_user.of_ann, signed_in_user.operator.headers)


async def promote_to_operator(signed_in_user: SignedInUser) -> None:
    await signed_in_user.ask("PUT", f"{signed_in_user.of_ann}/role", signed_in_user.operator.headers, role="operator")


async def set_password_by_command(signed_in_user: SignedInUser) -> None:
    await signed_in_user.plane.rooms.identity.accounts.set_password(signed_in_user.ann.user.email, CHANGED)


async def set_password_by_link(signed_in_user: SignedInUser) -> None:
    made = await signed_in_user.ask("POST", f"{signed_in_user.of_ann}/password-reset", signed_in_user.operator.headers)
    token = made.json()["link"].rpartition("/")[2]
    await signed_in_user.ask("POST", f"/api/password-resets/{token}", {}, password=CHANGED)


async def change_password(signed_in_user: SignedInUser) -> None:
    body = {"current_password": PASSWORD, "new_password": CHANGED}
    await signed_in_user.ask("POST", "/api/me/password", signed_in_user.session, **body)


async def revoke_key(signed_in_user: SignedInUser) -> None:
    [key] = (await signed_in_user.ask("GET", "/api/keys", signed_in_user.ann.headers)).json()["items"]
    await signed_in_user.ask("DELETE", f"/api/keys/{key['id']}", signed_in_user.session)


async def sign_out(signed_in_user: SignedInUser) -> None:
    await signed_in_user.ask("POST", "/api/auth/logout", signed_in_user.session)


# What still works afterwards.
ENDS: dict[Callable[[SignedInUser], Awaitable[None]], set[str]] = {
    disable_user: set(),
    disable_user_by_command: set(),
    disable_tenant: set(),
    disable_tenant_by_command: set(),
    delete_user: set(),
    promote_to_operator: set(),
    set_password_by_command: set(),
    set_password_by_link: set(),
    change_password: {"session"},
    revoke_key: {"session"},
    sign_out: {"key"},
}


@pytest.fixture(autouse=True)
def only_notifications(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds_module, "RECHECK_SECONDS", 3600.0)


@pytest.mark.few_forms
@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
async def test_a_credential_ends_on_all_control_planes_at_once(
    strict_plane: ControlPlane,
    strict_client: httpx.AsyncClient,
    neighbour_client: httpx.AsyncClient,
    neighbour_plane: ControlPlane,
    end: Callable[[SignedInUser], Awaitable[None]],
) -> None:
    await neighbour_plane.listener.connected.wait()
    people = People(strict_plane.rooms.identity.accounts, strict_plane.rooms.identity.keys)
    signed_in_user = SignedInUser(strict_plane, strict_client, await people.user(), await people.admin())
    signed_in_user.session = await session_of(strict_client, signed_in_user.ann)
    colleague = await people.user(signed_in_user.ann.tenant)
    watching = {"key": signed_in_user.ann.headers, "session": {"cookie": signed_in_user.session["cookie"]}}
    async with AsyncExitStack() as opened:

        async def stream(headers: dict[str, str]) -> EventStream:
            response = await opened.enter_async_context(neighbour_client.stream("GET", ALL, headers=headers))
            found = EventStream(response)
            await found.comment("open")
            return found

        streams = {name: await stream(headers) for name, headers in watching.items()}
        await stream(colleague.headers)
        await end(signed_in_user)
        for name, each in streams.items():
            if name not in ENDS[end]:
                assert await each.rest() == []
    for name, headers in watching.items():
        for client in (strict_client, neighbour_client):
            response = await client.get("/api/me", headers=headers)
            if name in ENDS[end]:
                assert response.status_code == 200
            else:
                assert_refused(response, 401, "not_authenticated")
    whole_tenant = end in (disable_tenant, disable_tenant_by_command)
    seen = await strict_client.get("/api/me", headers=colleague.headers)
    assert seen.status_code == (401 if whole_tenant else 200)


async def test_a_stream_that_is_still_being_opened_also_ends() -> None:
    """A credential that ends after the request was accepted, and before the stream listens, is found at its first
    check."""

    async def read(after: Position) -> News:
        return News([])

    async def ended() -> bool:
        return False

    items = Feeds().follow(("tenant", "user"), read, START, ended, ("user",))
    assert [item async for item in items] == []


async def test_ended_streams_leave_no_state_behind() -> None:
    feeds = Feeds()
    responses = iter([True, False])

    async def read(after: Position) -> News:
        return News([])

    async def may_go_on() -> bool:
        feeds.credentials_changed("user")
        return next(responses)

    items = feeds.follow(("tenant", "job"), read, START, may_go_on, ("user", "tenant"))
    assert [item async for item in items] == []
    assert (len(feeds), feeds._watched) == (0, {})
