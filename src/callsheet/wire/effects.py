"""Effects: how admins define them, how users see them, and the requests for a job or a batch of one."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from callsheet.wire.base import (
    METADATA,
    WHOLE,
    KeyedRequest,
    Line,
    Metadata,
    MetadataPair,
    OptionalLine,
    ResponseModel,
    Switch,
    UserRequest,
)
from callsheet.wire.catalog import (
    MAX_PROPERTIES,
    Credits,
    Limits,
    Paragraph,
    PropertyType,
    PropertyValue,
    RefundOnCancel,
    Values,
)
from callsheet.wire.forms import Provider, Slug, WorkflowSlug
from callsheet.wire.jobs import JobRequest, JobWebhookUrl
from callsheet.wire.library import MAX_VALUES
from callsheet.wire.media import MediaPreviews

MAX_FORMULA_LENGTH = 1000
PriceFormula = Annotated[
    str, StringConstraints(strip_whitespace=True, max_length=MAX_FORMULA_LENGTH, pattern=r"^[ -~]*$")
]
FORMULA = (
    "Price of a job in tokens, calculated from its properties and rounded up, for example "
    "`2 + ceil(video.seconds / 10)`. Empty: credits_cost is the price."
)

LOWEST = "Price of a job in tokens. With a price_formula: the lowest price that a job can have."

# Items of a batch.
MAX_ITEMS = 1000
BATCH_REFERENCE = "What you call {}, for example the number of an order. Lists can be filtered by it."
UserPriority = Annotated[
    int,
    Field(ge=-(2**31), le=2**31 - 1, description="0 to -3 for users. Jobs with a higher priority run first."),
    WHOLE,
]


class CreateEffect(UserRequest):
    slug: Slug
    name: Line
    description: Paragraph = ""
    category: OptionalLine = Field("", description="Heading in the gallery, for example Color.")
    workflow: WorkflowSlug
    overrides: Values = Field(default_factory=dict, description="Values of the workflow's properties, by key.")
    credits_cost: Credits = Field(
        0,
        description="Price of a job in tokens. Required if is_published is true and there is no price_formula. Leave "
        "it out with a price_formula.",
    )
    price_formula: PriceFormula = Field("", description=FORMULA)
    is_published: Switch = False
    provider: Provider = "self_hosted"
    stage: Slug = "production"


class UpdateEffect(UserRequest):
    """Fields that you leave out do not change."""

    name: Line | None = None
    description: Paragraph | None = None
    category: OptionalLine | None = None
    workflow: WorkflowSlug | None = None
    overrides: Values | None = Field(
        None, description="All overrides. Properties that you leave out get their defaults."
    )
    credits_cost: Credits | None = Field(
        None,
        description="Required if is_published becomes true and the price is still 0. The price 0 makes the "
        "effect free. Leave it out with a price_formula.",
    )
    price_formula: PriceFormula | None = Field(
        None, description=f"{FORMULA} To remove a formula, send an empty text and credits_cost."
    )
    is_published: Switch | None = None
    provider: Provider | None = None
    stage: Slug | None = None
    version: Annotated[int, Field(ge=1, le=2**31 - 1), WHOLE] | None = Field(
        None,
        description="The version that you read. If the effect was changed since then, the request is refused with 409.",
    )


class EffectPreview(ResponseModel):
    """The preview of an effect in a gallery. A clip is at most six seconds long and 720 pixels wide or high."""

    before: MediaPreviews | None = Field(
        None, description="The original before the effect. Null for an effect that takes no file."
    )
    after: MediaPreviews


class SetEffectPreview(UserRequest):
    """Send either a job of yours, or assets of the catalog."""

    job_id: UUID | None = Field(
        None,
        description="A completed job of yours. Its first input and output are copied, and every user will see them.",
    )
    after_asset_id: UUID | None = Field(None, description="A confirmed asset that shows a result.")
    before_asset_id: UUID | None = Field(None, description="A confirmed asset that shows the original.")


class EffectRecord(ResponseModel):
    """An effect as admins see it."""

    id: UUID
    slug: str
    name: str
    description: str
    category: str = ""
    preview: EffectPreview | None = None
    workflow: str
    overrides: dict[str, Any]
    credits_cost: int = Field(description=LOWEST)
    price_formula: str = Field("", description=FORMULA)
    is_published: bool
    provider: str
    stage: str
    last_processing_time_seconds: float | None = None
    has_jobs: bool = Field(description="Whether the effect has jobs. Then it can be unpublished, but not deleted.")
    version: int = Field(
        description="Every change increments it. Send it with a change: the change is refused if "
        "the version is outdated."
    )
    created_at: datetime
    updated_at: datetime
    warnings: list[str] = Field(
        default_factory=list,
        description="Possible problems of the effect. Only in the response to its creation or change.",
    )


class EffectInput(ResponseModel):
    """The file that an effect works on."""

    type: Literal["image", "video", "audio"]
    label: str
    description: str
    max_bytes: int | None = None
    max_seconds: float | None = Field(None, description="Longest duration of a video or an audio file, in seconds.")
    accept: list[str] = Field(default_factory=list, description="Accepted media types, for example `video/*`.")


class EffectOutput(ResponseModel):
    """The result of an effect."""

    type: Literal["image", "video", "audio", "text", "other"]
    mime_type: str


class EffectWait(ResponseModel):
    """How long a job that is submitted now would wait."""

    code: Literal["ready", "queue", "no_live_worker", "workers_lack", "scaling_up", "provider_paused", "off"] = Field(
        description="`ready`: a worker is free. `queue`: the job will wait in the queue. `workers_lack`: no online "
        "worker has what the workflow requires. `off`: no jobs are accepted."
    )
    message: str = Field(description="The state as a sentence.")
    wait_seconds: int | None = Field(None, description="Estimated seconds until the job starts. Null if not known.")
    run_seconds: int | None = Field(
        None, description="Typical run time of such jobs, in seconds. Null until one has run."
    )


class EffectProperty(ResponseModel):
    """A value that a user may set: `input_payload.{key}` of a job."""

    key: str
    type: PropertyType
    label: str
    description: str
    required: bool = Field(description="Whether a job must send a value.")
    default: bool | int | float | str | None = Field(None, description="Value if the job sends none.")
    accept: list[str] = Field(default_factory=list, description="Accepted media types of a file.")
    limits: Limits


class Effect(ResponseModel):
    """An effect as users see it."""

    id: UUID
    slug: str
    name: str
    description: str
    category: str = Field("", description="Heading in the gallery. Empty: no heading.")
    preview: EffectPreview | None = None
    credits_cost: int = Field(description=LOWEST)
    price_formula: str = Field("", description=f"{FORMULA} `POST /api/quotes` calculates it for a job.")
    refund_on_cancel: RefundOnCancel = Field(
        description="Refund when a running job is canceled: all its tokens, or `unspent`, the share of the run that "
        "is left."
    )
    is_available: bool = Field(description="Whether jobs are accepted: the effect's workflow is switched on.")
    last_processing_time_seconds: float | None = None
    wait: EffectWait | None = Field(None, description="How long a job that you submit now would wait.")
    input: EffectInput | None = Field(None, description="The file that the effect works on. Null if it takes no file.")
    output: EffectOutput
    properties: list[EffectProperty]


class SubmitEffectJob(JobRequest):
    effect_id: Slug = Field(description="Id or slug of a published effect.")
    video_id: UUID | None = Field(None, description="The video that the effect is applied to.")
    input_file_id: UUID | None = Field(
        None, description="A file of yours that the effect is applied to, instead of a video."
    )
    input_payload: Values = Field(
        default_factory=dict,
        description="Values of the properties that you may set, by key. For a file, send its id. A seed that you leave "
        "out is random; the job has the seed that was used.",
    )
    priority: UserPriority = 0


class BatchItem(UserRequest):
    """One job of a batch."""

    input_file_id: UUID | None = Field(None, description="A file of yours that the effect is applied to.")
    input_payload: Values = Field(
        default_factory=dict, description="Values of this item, by key. They replace those of the batch."
    )
    client_reference: Line | None = Field(None, description=BATCH_REFERENCE.format("the job"))
    metadata: Metadata | None = Field(None, description=METADATA)


class BatchGrid(UserRequest):
    """Lists of values from which the items are made."""

    mode: Literal["cartesian", "zipped"] = Field(
        "cartesian",
        description="`cartesian`: an item for each combination of the values. `zipped`: the first item has the first "
        "value of each list, and so on; all lists have the same length.",
    )
    input_file_ids: Annotated[list[UUID], Field(min_length=1, max_length=MAX_ITEMS)] | None = Field(
        None, description="Files of yours that the effect is applied to."
    )
    values: dict[str, Annotated[list[PropertyValue], Field(min_length=1, max_length=MAX_ITEMS)]] = Field(
        default_factory=dict, max_length=MAX_PROPERTIES, description="A list of values for each property, by its key."
    )


class SubmitBatch(KeyedRequest):
    """Send either `items` or `grid`."""

    effect_id: Slug = Field(description="Id or slug of a published effect.")
    input_payload: Values = Field(
        default_factory=dict,
        description="Values that all items have, by key. For a file, send its id. Each item draws a seed of its own if "
        "you leave the seed out.",
    )
    items: Annotated[list[BatchItem], Field(min_length=1, max_length=MAX_ITEMS)] | None = Field(
        None, description="The jobs, one by one."
    )
    grid: BatchGrid | None = Field(None, description="The jobs as combinations of values: at most 1,000.")
    priority: UserPriority = 0
    client_reference: Line | None = Field(None, description=BATCH_REFERENCE.format("the batch"))
    metadata: Metadata | None = Field(None, description=METADATA)
    webhook_url: JobWebhookUrl | None = Field(
        None,
        description="Where the events of this batch and its jobs are sent. It starts with the URL of a webhook "
        "endpoint of yours with the scope `job`, which has the secret that signs them and says which events.",
        examples=["https://shop.example.com/callsheet/orders/1001"],
    )


class BatchCounts(ResponseModel):
    """The items of a batch, each counted once by the status of its job."""

    active: int = Field(description="Items that wait or run.")
    completed: int
    failed: int
    canceled: int
    expired: int


class Batch(ResponseModel):
    id: UUID
    status: Literal["running", "finished"] = Field(
        description="`finished`: every item has ended, with any outcome. A retry of failed items makes it `running`."
    )
    effect_id: UUID
    title: str = Field(description="Name of the effect when the batch was submitted.")
    client_reference: str | None = Field(None, description="What its client calls the batch.")
    metadata: dict[str, str] | None = Field(None, description="Texts of its client, by key.")
    webhook_url: str | None = Field(None, description="Where its events are sent, beside your other endpoints.")
    idempotency_key: str | None = Field(None, description="The idempotency key of the request that created the batch.")
    cost: int = Field(description="Tokens that were held for all items when the batch was submitted.")
    items: int = Field(description="Number of items. Their jobs are in GET /api/ai-jobs?batch_id=….")
    counts: BatchCounts
    created_at: datetime
    finished_at: datetime | None = Field(None, description="When the last item ended.")


class BatchItemValues(ResponseModel):
    item: int = Field(description="The `batch_item` of the job.")
    values: dict[str, str] = Field(description="By key, as text of at most 200 characters.")


class BatchValues(ResponseModel):
    """The values in which the items of a batch differ."""

    keys: list[str] = Field(description="Keys of properties whose values are not the same for all items.")
    items: list[BatchItemValues] = Field(description="In the order of the items. Deleted jobs are left out.")


class BatchFilter(BaseModel):
    model_config = ConfigDict(frozen=True)

    status: Literal["running", "finished"] | None = Field(
        None, description="Only batches of this status. Without it, all."
    )
    effect: list[Slug] = Field([], max_length=MAX_VALUES, description="Only batches of these effects: ids or slugs.")
    client_reference: Line | None = Field(
        None, description="Only batches that were submitted with this reference.", examples=["order-1001"]
    )
    metadata: list[MetadataPair] = Field(
        [],
        max_length=20,
        description="Only batches whose metadata has this value: `KEY:VALUE`. It can be repeated.",
        examples=[["color:red"]],
    )
