"""Serves the web application: its files by name, and its page at every path without another route."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from callsheet.web.files import INDEX, STATIC, StaticFile, read_files
from callsheet.web.negotiation import accepts_html, chosen_encoding, matches_etag
from callsheet.web.policy import content_security_policy, is_other_name

# Paths of programs, and of files of an earlier version: a page would hide the mistake.
NEVER_A_PAGE = ("/api", "/storage", "/docs", "/openapi.json", "/healthz", "/readyz", "/metrics", "/assets")
# Pages of public links. Search engines must not list them, and sites that a visitor opens next must not get the link.
SHARED = ("/share",)
UNLISTED: Mapping[str, str] = {"x-robots-tag": "noindex, nofollow, noarchive", "referrer-policy": "no-referrer"}
IMMUTABLE = "public, max-age=31536000, immutable"


class _Route(NamedTuple):
    """The name of the route in metrics. Paths are not used, because any client can invent them."""

    path: str = "(web application)"


class WebApplication:
    def __init__(self, files: Mapping[str, StaticFile], storage_url: str, public_url: str):
        self._files = files
        self._public_url = public_url
        self._policy = content_security_policy(storage_url)

    def page(self, request: Request) -> Response:
        """The only page. The browser checks each time whether it has changed, because it names all other files."""
        if is_other_name(request.headers.get("host", ""), self._public_url):
            query = f"?{request.url.query}" if request.url.query else ""
            # The path is quoted again, so that it cannot become a host or a header.
            path = request.scope["raw_path"].decode("latin-1").partition("?")[0] or "/"
            return Response(status_code=307, headers={"location": f"{self._public_url}{path}{query}"})
        headers = {"content-security-policy": self._policy, "cache-control": "no-cache", "vary": "Accept"}
        if _is_below(request.url.path, SHARED):
            headers |= UNLISTED
        return _response(request, self._files[INDEX], headers)

    def response(self, request: Request) -> Response | None:
        """The response for a path without a route. None if the path does not belong to the web application."""
        path = request.url.path
        if request.method not in ("GET", "HEAD"):
            return None
        file = self._files.get(path)
        if file is not None and path != INDEX:
            request.scope["route"] = _Route()
            return _response(request, file, {"cache-control": IMMUTABLE if file.is_immutable else "no-cache"})
        if _is_below(path, NEVER_A_PAGE) or not accepts_html(request.headers.get("accept", "")):
            return None
        request.scope["route"] = _Route()
        return self.page(request)


def open_web(storage_url: str, public_url: str, directory: Path = STATIC) -> WebApplication | None:
    """The web application. None if it was not built: `make web` has not run."""
    files = read_files(directory)
    return WebApplication(files, storage_url, public_url) if files else None


def _response(request: Request, file: StaticFile, headers: Mapping[str, str]) -> Response:
    encoding = chosen_encoding(request.headers.get("accept-encoding", ""), file.encoded)
    # Each form has its own tag, because its bytes differ.
    etag = f'"{file.etag}-{encoding}"' if encoding else f'"{file.etag}"'
    vary = ", ".join(filter(None, (headers.get("vary"), "Accept-Encoding" if file.encoded else None)))
    complete = {**headers, "etag": etag, **({"vary": vary} if vary else {})}
    if matches_etag(request.headers.get("if-none-match", ""), etag):
        return Response(status_code=304, headers=complete)
    if encoding:
        complete["content-encoding"] = encoding
    body = file.encoded[encoding] if encoding else file.content
    # A response to HEAD has the headers of the file, including its length.
    complete["content-length"] = str(len(body))
    return Response(b"" if request.method == "HEAD" else body, headers=complete, media_type=file.media_type)


def _is_below(path: str, roots: tuple[str, ...]) -> bool:
    return any(path == root or path.startswith(f"{root}/") for root in roots)
