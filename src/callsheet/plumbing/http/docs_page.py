"""`/docs` and `/openapi.json`, with all parts: a self-hosted control plane may have no access to a CDN."""

from __future__ import annotations

from importlib import resources

from fastapi.openapi.docs import get_swagger_ui_html
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles

from callsheet.plumbing.http.api_document import ApiDocument
from callsheet.plumbing.http.routing import Router

DOCUMENT = "/openapi.json"
ASSETS = "/docs/assets"
# The page starts with one inline script and shows its logo as a data: image.
CONTENT_SECURITY_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "frame-ancestors 'none'"
)


def docs_router(document: ApiDocument) -> Router:
    router = Router(include_in_schema=False)
    directory = resources.files("fastapi_offline").joinpath("static")
    router.mount(ASSETS, StaticFiles(directory=str(directory)))

    @router.get("/docs")
    async def docs() -> HTMLResponse:
        page = get_swagger_ui_html(
            openapi_url=DOCUMENT,
            title="Callsheet API",
            swagger_js_url=f"{ASSETS}/swagger-ui-bundle.js",
            swagger_css_url=f"{ASSETS}/swagger-ui.css",
            swagger_favicon_url=f"{ASSETS}/favicon.png",
        )
        page.headers["content-security-policy"] = CONTENT_SECURITY_POLICY
        return page

    @router.head(DOCUMENT)
    @router.get(DOCUMENT)
    async def openapi() -> Response:
        return Response(document.text, media_type="application/json")

    return router
