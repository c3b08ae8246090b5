"""`/api/generate/…`: typed generation jobs; `/api/products`: the products that scrapes found."""

from __future__ import annotations

from uuid import UUID

from fastapi import Depends, Response

from callsheet.identity.access.authentication import Authentication
from callsheet.identity.access.principal import Principal
from callsheet.jobs.show.presenter import Presenter
from callsheet.plumbing.database.pages import CURSOR, LIMIT
from callsheet.plumbing.http.idempotency import IdempotencyKey, or_earlier, replayed, with_key
from callsheet.plumbing.http.routing import Router
from callsheet.tasks.generation import COPY, SCRAPE, SPEECH, STATIC_AD, VIDEO, GenerationJobs, Kind
from callsheet.tasks.products import Products
from callsheet.wire.base import KeyedRequest, Page
from callsheet.wire.generation import (
    GenerateCopy,
    GenerateScrape,
    GenerateSpeech,
    GenerateStaticAd,
    GenerateVideo,
    Product,
)
from callsheet.wire.jobs import Job


def generation_router(generation: GenerationJobs, presenter: Presenter, authentication: Authentication) -> Router:
    router = Router(prefix="/api/generate", tags=["generation"])

    async def respond(principal: Principal, kind: Kind, body: KeyedRequest, response: Response) -> Job:
        submitted = replayed(response, await generation.submit(principal, kind, body))
        return await presenter.one(principal.tenant_id, submitted.job)

    @router.post("/copy", status_code=201, responses=or_earlier(Job))
    async def generate_copy(
        body: GenerateCopy,
        response: Response,
        idempotency_key: IdempotencyKey = None,
        principal: Principal = Depends(authentication.user),
    ) -> Job:
        """Writes advertising copy for a product. Returns the completed job, or after a timeout the unfinished job,
        which keeps running.
        """
        return await respond(principal, COPY, with_key(body, idempotency_key), response)

    @router.post("/scrape", status_code=201, responses=or_earlier(Job))
    async def generate_scrape(
        body: GenerateScrape,
        response: Response,
        idempotency_key: IdempotencyKey = None,
        principal: Principal = Depends(authentication.user),
    ) -> Job:
        """Reads a product from a web page and stores it. Use `result.product_id` in later requests."""
        return await respond(principal, SCRAPE, with_key(body, idempotency_key), response)

    @router.post("/static-ad", status_code=201, responses=or_earlier(Job))
    async def generate_static_ad(
        body: GenerateStaticAd,
        response: Response,
        idempotency_key: IdempotencyKey = None,
        principal: Principal = Depends(authentication.user),
    ) -> Job:
        """Generates an advertising image for a product."""
        return await respond(principal, STATIC_AD, with_key(body, idempotency_key), response)

    @router.post("/video", status_code=201, responses=or_earlier(Job))
    async def generate_video(
        body: GenerateVideo,
        response: Response,
        idempotency_key: IdempotencyKey = None,
        principal: Principal = Depends(authentication.user),
    ) -> Job:
        """Generates a video about a product or from a script."""
        return await respond(principal, VIDEO, with_key(body, idempotency_key), response)

    @router.post("/tts", status_code=201, responses=or_earlier(Job))
    async def generate_speech(
        body: GenerateSpeech,
        response: Response,
        idempotency_key: IdempotencyKey = None,
        principal: Principal = Depends(authentication.user),
    ) -> Job:
        """Generates speech from a text."""
        return await respond(principal, SPEECH, with_key(body, idempotency_key), response)

    return router


def product_router(products: Products, authentication: Authentication) -> Router:
    router = Router(prefix="/api/products", tags=["generation"])

    @router.get("")
    async def list_products(
        cursor: UUID | None = CURSOR, limit: int = LIMIT, principal: Principal = Depends(authentication.user)
    ) -> Page[Product]:
        """The products that your scrapes found, newest first."""
        return await products.list(principal, cursor, limit)

    @router.get("/{product_id}")
    async def get_product(product_id: UUID, principal: Principal = Depends(authentication.user)) -> Product:
        """One of your products."""
        return await products.get(principal, product_id)

    @router.delete("/{product_id}", status_code=204)
    async def delete_product(product_id: UUID, principal: Principal = Depends(authentication.user)) -> None:
        """Deletes a product. Media that was made from it stays."""
        await products.delete(principal, product_id)

    return router
