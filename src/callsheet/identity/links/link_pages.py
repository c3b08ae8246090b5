"""The pages of the links of invitations and password resets: one form, plain HTML, no script."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Awaitable
from html import escape
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from fastapi import Request
from fastapi.responses import HTMLResponse
from pydantic import ValidationError
from starlette.requests import ClientDisconnect

from callsheet.identity.links.invitations import Invitations
from callsheet.identity.links.links import INVITATION, RESET
from callsheet.identity.links.password_resets import PasswordResets
from callsheet.plumbing.http.problems import STATUS_OF_CODE
from callsheet.plumbing.http.routing import Router
from callsheet.wire.errors import MalformedRequest, Refusal
from callsheet.wire.identity import AcceptInvitationRequest, SetPasswordRequest

if TYPE_CHECKING:
    from callsheet.identity.room import AccountLinks

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 0; background: #f4f4f2; color: #1d1d1b; }
main { max-width: 26rem; margin: 12vh auto; padding: 2rem; background: #fff; border-radius: 8px; }
h1 { font-size: 1.3rem; margin: 0 0 1rem; }
label { display: block; margin: 1rem 0 .25rem; }
input, button { font: inherit; border: 1px solid #8a8a86; border-radius: 4px; padding: .5rem; }
input { width: 100%; box-sizing: border-box; }
button { margin-top: 1.5rem; padding: .6rem 1.2rem; border: 0; background: #1d4ed8; color: #fff; }
a { color: inherit; }
.problem { color: #a11212; }
@media (prefers-color-scheme: dark) {
  body { background: #1d1d1b; color: #eee; }
  main { background: #2b2b28; }
  input { background: #1d1d1b; color: #eee; }
  .problem { color: #ff9d9d; }
}
"""
_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
HEADERS = {
    "content-security-policy": f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "cache-control": "no-store",
}
PROBLEMS = {
    "password": "A password has 10 to 256 characters.",
    "name": "A name has 200 characters at most, and no line breaks.",
}
# The link leads to the web application, where the user signs in; without one, to the front page.
ONWARD = '<p><a href="/">Go to Callsheet</a></p>'
NAME_FIELD = """<label for="name">Your name (optional)</label>
<input id="name" name="name" autocomplete="name" maxlength="200">"""


def link_page_router(links: AccountLinks) -> Router:
    router = Router(include_in_schema=False)
    invitation, reset = _InvitationPage(links.invitations), _ResetPage(links.resets)

    @router.get(INVITATION.path + "/{token}")
    async def show_invitation(token: str) -> HTMLResponse:
        return await _responded(invitation.form(token))

    @router.post(INVITATION.path + "/{token}")
    async def accept_invitation(token: str, request: Request) -> HTMLResponse:
        return await _responded(invitation.accept(token, request))

    @router.get(RESET.path + "/{token}")
    async def show_reset(token: str) -> HTMLResponse:
        return await _responded(reset.form(token))

    @router.post(RESET.path + "/{token}")
    async def set_password(token: str, request: Request) -> HTMLResponse:
        return await _responded(reset.set_password(token, request))

    return router


class _InvitationPage:
    def __init__(self, invitations: Invitations):
        self._invitations = invitations

    async def form(self, token: str, problem: str = "") -> HTMLResponse:
        found = await self._invitations.find(token)
        role = escape(found.role.value.replace("_", " "))
        text = f"You are invited to <b>{escape(found.tenant_name)}</b> as {role}. Set a password to accept."
        return _form("Accept the invitation", text, found.email, problem, NAME_FIELD)

    async def accept(self, token: str, request: Request) -> HTMLResponse:
        fields = await _fields(request)
        try:
            accepted = AcceptInvitationRequest(password=fields.get("password", ""), name=fields.get("name", ""))
        except ValidationError as invalid:
            return await self.form(token, _problem(invalid))
        user = await self._invitations.accept(token, accepted)
        text = f"Your account is ready. Sign in as {escape(user.email)} with the password you have set."
        return _page("Welcome", f"<p>{text}</p>{ONWARD}")


class _ResetPage:
    def __init__(self, resets: PasswordResets):
        self._resets = resets

    async def form(self, token: str, problem: str = "") -> HTMLResponse:
        email = await self._resets.find(token)
        return _form("Set a new password", "Choose a new password for your account.", email, problem)

    async def set_password(self, token: str, request: Request) -> HTMLResponse:
        fields = await _fields(request)
        try:
            wanted = SetPasswordRequest(password=fields.get("password", ""))
        except ValidationError as invalid:
            return await self.form(token, _problem(invalid))
        await self._resets.set_password(token, wanted.password)
        return _page("Password changed", f"<p>Your new password is set. All earlier sessions have ended.</p>{ONWARD}")


async def _responded(work: Awaitable[HTMLResponse]) -> HTMLResponse:
    try:
        return await work
    except Refusal as refusal:
        return _page("This did not work", f"<p>{escape(str(refusal))}</p>", STATUS_OF_CODE[refusal.code])


def _form(title: str, text: str, email: str, problem: str, more: str = "") -> HTMLResponse:
    shown = f'<p class="problem" role="alert">{escape(problem)}</p>' if problem else ""
    # The e-mail address shows a password manager whose password it stores.
    return _page(
        title,
        f"""<p>{text}</p>{shown}
<form method="post">
<label for="email">E-mail address</label>
<input id="email" name="email" type="email" autocomplete="username" value="{escape(email)}" readonly>
{more}
<label for="password">Password (10 characters or more)</label>
<input id="password" name="password" type="password" autocomplete="new-password" minlength="10" maxlength="256"
 required>
<button>{escape(title)}</button>
</form>""",
        422 if problem else 200,
    )


def _page(title: str, body: str, status: int = 200) -> HTMLResponse:
    document = f"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{escape(title)} · Callsheet</title>
<style>{STYLE}</style></head>
<body><main><h1>{escape(title)}</h1>
{body}
</main></body>
</html>
"""
    return HTMLResponse(document, status, HEADERS)


def _problem(invalid: ValidationError) -> str:
    return PROBLEMS[str(invalid.errors()[0]["loc"][0])]


async def _fields(request: Request) -> dict[str, str]:
    try:
        body = await request.body()
        found = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=10)
    except ClientDisconnect:
        raise MalformedRequest("The connection ended before the whole body arrived.") from None
    except ValueError:
        raise MalformedRequest("The form could not be read.") from None
    return {name: values[0] for name, values in found.items()}
