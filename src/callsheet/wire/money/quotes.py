"""Quotes: what a submit would cost now, how long it would take, and what would refuse it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from callsheet.wire.base import ResponseModel, UserRequest
from callsheet.wire.effects import EffectWait, SubmitBatch, SubmitEffectJob
from callsheet.wire.generation import GenerateCopy, GenerateScrape, GenerateSpeech, GenerateStaticAd, GenerateVideo
from callsheet.wire.money.wallet import Payer
from callsheet.wire.pipelines.design import StepPreview
from callsheet.wire.pipelines.pipelines import CreateRun
from callsheet.wire.tasks import SubmitTask


class QuoteRun(CreateRun):
    pipeline: str = Field(max_length=100, description="Id or slug of a pipeline of yours.")


class QuoteRequest(UserRequest):
    """The body of one submit, in the field of its route. Send exactly one field. Idempotency keys have no effect."""

    effect: SubmitEffectJob | None = Field(None, description="A body of `POST /api/ai-jobs`.")
    batch: SubmitBatch | None = Field(None, description="A body of `POST /api/batches`.")
    run: QuoteRun | None = Field(
        None, description="A body of `POST /api/pipelines/{pipeline}/runs`, and the pipeline as one more field."
    )
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
    item: int | None = Field(
        None,
        description="The first item of the batch that has the problem, from 1: the `batch_item` of its job. Null if it "
        "is not a problem of an item.",
    )
    retry_after_seconds: int | None = Field(
        None, description="After how many seconds a submit may work. Null: unknown."
    )


class QuoteLimit(ResponseModel):
    """A limit that applies to the submit."""

    code: Literal[
        "active_jobs",
        "submits_per_minute",
        "batches_per_minute",
        "active_runs",
        "user_storage_bytes",
        "user_storage_files",
        "tenant_storage_bytes",
        "tenant_storage_files",
        "user_database_bytes",
    ]
    limit: int
    used: int | None = Field(None, description="How much of it is used now. Null if it is not counted.")


class QuotePrice(ResponseModel):
    """Items of a batch that cost the same."""

    cost: int = Field(description="Tokens of one item.")
    items: int = Field(description="Number of items that cost this.")
    first_item: int = Field(description="The first of them, from 1.")


class QuotePrices(ResponseModel):
    """The prices of the items of a batch whose price is known."""

    lowest: int
    highest: int
    each: list[QuotePrice] | None = Field(
        None, description="Each price, the lowest first. Null if there are more than 20 prices."
    )


class Quote(ResponseModel):
    """What a submit of this request would do now. A quote holds nothing, and the next moment may differ."""

    cost: int | None = Field(
        description="Tokens that the submit would hold. For a run, which holds the tokens of each job when the job "
        "starts: the tokens that it is expected to spend, at most its budget. Null if the request leaves the price "
        "open: `missing` says why."
    )
    balance: int = Field(description="Tokens that you can spend now.")
    paid_by: Payer = Field(description="Whose wallet the submit would be paid from.")
    can_submit: bool = Field(description="Whether a submit would be accepted now.")
    missing: list[QuoteProblem] = Field(
        description="Why a submit would be refused now: every reason, or the first 100 of a batch."
    )
    not_listed: int = Field(0, description="Number of further problems of a batch, which `missing` does not list.")
    limits: list[QuoteLimit] = Field(description="The limits that apply to the submit.")
    jobs: int | None = Field(
        1,
        description="Number of jobs that the submit would start. For a run: the expected number, without limit by its "
        "budget. Null if the request does not say it.",
    )
    prices: QuotePrices | None = Field(None, description="The prices of the items of a batch.")
    steps: list[StepPreview] | None = Field(None, description="The price of each step of a run.")
    wait: EffectWait | None = Field(
        None,
        description="How long the first job would wait and run, and whether a worker can run it. Null if it is not "
        "known what would run.",
    )
    total_seconds: int | None = Field(
        None, description="Estimated seconds until all jobs have ended. Null for a run, and if it is not known."
    )
