"""Errors that must not happen in a browser, in any test."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from playwright.async_api import BrowserContext, ConsoleMessage, Request, WebError

# The browser writes a line for every answer of 400 and above, also where the page expects it.
REFUSAL = re.compile(r"Failed to load resource: the server responded with a status of (\d+)")
# The browser reports a violation of the content security policy to the page alone.
REPORT_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`Content security policy: ${event.violatedDirective} refused ${event.blockedURI}`));
"""
LOCAL_SCHEMES = ("blob", "data")


@dataclass
class Watch:
    """Console errors, errors of scripts, violations of the content security policy, requests to other hosts."""

    url: str
    # Where the files are, if that is another server.
    storage_url: str | None = None
    problems: list[str] = field(default_factory=list)
    # The test has stopped the server: a request that fails is not a mistake of the page.
    is_server_away: bool = False
    # The test makes the server fail: responses of 500 and above are not a mistake of the page either.
    is_server_failing: bool = False

    async def follow(self, context: BrowserContext) -> None:
        await context.add_init_script(REPORT_VIOLATIONS)
        context.on("console", self._on_console)
        context.on("weberror", self._on_error)
        context.on("request", self._on_request)

    def check(self) -> None:
        assert self.problems == []

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type != "error":
            return
        refusal = REFUSAL.match(message.text)
        path = urlsplit(str(message.location.get("url", ""))).path
        # What the API refuses is shown by the page, which is what tests look at; everything else must be there.
        if refusal and path.startswith("/api/") and (int(refusal[1]) < 500 or self.is_server_failing):
            return
        if self.is_server_away and "net::ERR_" in message.text:
            return
        # The page removed a preview of a local file while the browser was still loading it.
        if "net::ERR_FILE_NOT_FOUND" in message.text and str(message.location.get("url", "")).startswith("blob:"):
            return
        self.problems.append(f"console: {message.text} ({message.location.get('url')})")

    def _on_error(self, error: WebError) -> None:
        self.problems.append(f"script: {error.error}")

    def _on_request(self, request: Request) -> None:
        own = tuple(url for url in (self.url, self.storage_url) if url is not None)
        if not request.url.startswith(own) and urlsplit(request.url).scheme not in LOCAL_SCHEMES:
            self.problems.append(f"request to another host: {request.url}")
