"""Quotes: what a submit would cost now, how long it would take, and what would refuse it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from callsheet.wire.base import ResponseModel, UserRequest
from callsheet.wire.effects import EffectWait, SubmitEffectJob
from callsheet.wire.generation import GenerateCopy, GenerateScrape, GenerateSpeech, GenerateStaticAd, GenerateVideo
from callsheet.wire.tasks import SubmitTask


class QuoteRequest(UserRequest):
    """The body of one submit, in the field of its route. Send exactly one field. Idempotency keys have no effect."""

    effect: SubmitEffectJob | None = Field(None, description="A body of `POST /api/ai-jobs`.")
    task: SubmitTask | None = Field(None, description="A body of `POST /api/task`.")
    generate_copy: GenerateCopy | None = Field(None, description="A body of `POST /api/generate/copy`.")
    generate_scrape: GenerateScrape | None = Field(None, description="A body of `POST /api/generate/scrape`.")
    generate_static_ad: GenerateStaticAd | None = Field(None, description="A body of `POST /api/generate/static-ad`.")
    generate_video: GenerateVideo | None = Field(None, description="A body of `POST /api/generate/video`.")
    generate_tts: GenerateSpeech | None = Field(None, description="A body of `POST /api/generate/tts`.")


class QuoteProblem(ResponseModel):
    """Something that a submit needs and does not have now."""

    code: str = Field(description="The code of the error that a submit would return, see the list of errors.")
    message: str
    field: str | None = Field(None, description="The field of the submit's body. Null if the problem is not in it.")
    retry_after_seconds: int | None = Field(
        None, description="After how many seconds a submit may work. Null: unknown."
    )


class QuoteLimit(ResponseModel):
    """A limit that applies to the job."""

    code: Literal[
        "active_jobs",
        "submits_per_minute",
        "user_storage_bytes",
        "user_storage_files",
        "tenant_storage_bytes",
        "tenant_storage_files",
        "user_database_bytes",
    ]
    limit: int
    used: int | None = Field(None, description="How much of it is used now. Null if it is not counted.")


class Quote(ResponseModel):
    """What a submit of this request would do now. A quote holds nothing, and the next moment may differ."""

    cost: int | None = Field(
        description="Tokens that the submit would hold. Null if the request leaves the price open: `missing` says why."
    )
    balance: int = Field(description="Tokens that you can spend now.")
    can_submit: bool = Field(description="Whether a submit would be accepted now.")
    missing: list[QuoteProblem] = Field(description="Every reason why a submit would be refused now.")
    limits: list[QuoteLimit] = Field(description="The limits that apply to the job.")
    wait: EffectWait | None = Field(
        None,
        description="How long the job would wait and run, and whether a worker can run it. Null if it is not known "
        "what would run.",
    )
