"""The models of workflows, their properties, and the catalog's assets."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, Field, PlainValidator, StringConstraints, WithJsonSchema

from callsheet.wire.base import WHOLE, Document, Line, OptionalLine, ResponseModel, Switch, UserRequest
from callsheet.wire.forms import Extension, Placeholder, PropertyKey, Sha256, WorkflowSlug
from callsheet.wire.media import UploadRequest
from callsheet.wire.worker.environment import Required, Requirements

MAX_TEXT_LENGTH = 20_000
# Seeds of engines are unsigned numbers of 64 bits.
MAX_NUMBER = 2**64
MAX_PROPERTIES = 100
MAX_CHOICES = 200


def _storable_text(text: str) -> str:
    """Text with line breaks and tabs. PostgreSQL and engines cannot use other control characters."""
    if any((ord(character) < 32 and character not in "\n\r\t") or character == "\x7f" for character in text):
        raise ValueError("The text must not contain control characters.")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("The text must not contain half of a surrogate pair.")
    return text


def _value(value: object) -> bool | int | float | str:
    """A plain value, unchanged: 1 is not converted to true, and "1" not to 1."""
    match value:
        case bool():
            return value
        # NaN is not smaller than anything, and an int may be too large for a float.
        case int() | float() if not abs(value) <= MAX_NUMBER:
            raise ValueError("The value must be a number between -2^64 and 2^64.")
        case int() | float():
            return value
        case str() if len(value) > MAX_TEXT_LENGTH:
            raise ValueError(f"The text must have at most {MAX_TEXT_LENGTH} characters.")
        case str():
            return _storable_text(value)
    raise ValueError("The value must be a text, a number, true or false.")


PropertyValue = Annotated[
    bool | int | float | str,
    PlainValidator(_value),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "boolean"},
                {"type": "number", "minimum": -MAX_NUMBER, "maximum": MAX_NUMBER},
                {"type": "string", "maxLength": MAX_TEXT_LENGTH, "pattern": r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*$"},
            ]
        }
    ),
]
# Any key is accepted here; a key that is not a property is refused by its name.
Values = Annotated[dict[str, PropertyValue], Field(max_length=MAX_PROPERTIES)]
Paragraph = Annotated[
    str,
    StringConstraints(max_length=2000),
    AfterValidator(_storable_text),
    Field(json_schema_extra={"pattern": r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*$"}),
]

Number = Annotated[float, Field(ge=-MAX_NUMBER, le=MAX_NUMBER)]
NodeId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_:.-]{1,100}$")]
MimeType = Annotated[
    str,
    StringConstraints(
        pattern=r"^((image|video|audio|model)/[a-z0-9.+-]{1,100}|application/(json|zip|octet-stream)|text/plain)$"
    ),
]
AssetMimeType = Annotated[str, StringConstraints(pattern=r"^(image|video|audio)/[a-z0-9.+-]{1,100}$")]
RunLimit = Annotated[int, Field(ge=1, le=604_800), WHOLE]
# A shorter lease would need too many heartbeats.
LeaseSeconds = Annotated[int, Field(ge=15, le=86_400), WHOLE]
Attempts = Annotated[int, Field(ge=1, le=100), WHOLE]
Credits = Annotated[int, Field(ge=0, le=2**53), WHOLE]


class PropertyType(StrEnum):
    TEXT = "text"
    NUMBER = "number"
    BOOLEAN = "boolean"
    CHOICE = "choice"
    IMAGE = "image"
    VIDEO = "video"
    AUDIO = "audio"


FILES = frozenset({PropertyType.IMAGE, PropertyType.VIDEO, PropertyType.AUDIO})


class Limits(UserRequest):
    """Limits of a value. Each limit belongs to some types only: `max_length` to texts, `choices` to choices."""

    min: Number | None = None
    max: Number | None = None
    step: Annotated[float, Field(gt=0, le=MAX_NUMBER)] | None = Field(
        None, description="A number must be `min` (or 0) plus a multiple of this step."
    )
    integer: Switch = Field(False, description="Whether numbers must be whole.")
    max_length: Annotated[int, Field(ge=1, le=MAX_TEXT_LENGTH), WHOLE] | None = Field(
        None, description="Largest number of characters of a text."
    )
    choices: Annotated[list[PropertyValue], Field(min_length=1, max_length=MAX_CHOICES)] | None = None
    max_bytes: Annotated[int, Field(ge=1, le=2**53), WHOLE] | None = Field(
        None, description="Largest size of a user's file, in bytes."
    )
    max_seconds: Annotated[float, Field(gt=0, le=86_400)] | None = Field(
        None,
        description="Longest duration of a user's video or audio file, in seconds. The web application checks it "
        "before the upload. The server checks it at submit if the duration is known; the server reads the duration "
        "when it makes the previews.",
    )


class Property(UserRequest):
    """A value of a workflow that can be set. The graph contains the property's placeholder where the value goes."""

    key: PropertyKey
    type: PropertyType
    label: OptionalLine = ""
    description: Paragraph = ""
    placeholder: Placeholder
    default: PropertyValue | None = Field(
        None, description="For an image, a video or an audio file: the id of a catalog asset."
    )
    required: Switch = Field(False, description="Whether a job without a value is refused.")
    user_configurable: Switch = Field(False, description="Whether a user may set it.")
    is_primary_input: Switch = Field(
        False,
        description="Whether this is the user's own file. At most one image, video or audio file of a workflow can be "
        "the primary input.",
    )
    limits: Limits = Field(default_factory=Limits)


Properties = Annotated[list[Property], Field(max_length=MAX_PROPERTIES)]
Graph = Annotated[
    Document,
    Field(description="ComfyUI's API format: node ids, each with `class_type` and `inputs`."),
]


RefundOnCancel = Literal["all", "unspent"]


class CreateWorkflow(UserRequest):
    slug: WorkflowSlug
    name: Line
    description: Paragraph = ""
    graph: Graph | None = Field(None, description="Null for a workflow that no engine runs, for example `actor:…`.")
    properties: Properties = Field(default_factory=list)
    output_node_id: NodeId | None = Field(
        None, description="The node whose output is the result. Null: all outputs that the graph saves."
    )
    output_extension: Extension = "mp4"
    output_mime_type: MimeType = "video/mp4"
    keep_metadata: Switch = Field(
        False,
        description="Whether results keep the metadata that the engine wrote into them. This metadata contains the "
        "whole graph with every value of the effect.",
    )
    run_limit_seconds: RunLimit = 3600
    lease_seconds: LeaseSeconds | None = Field(
        None,
        description="How long a worker may send no heartbeat before another worker gets its job, in seconds. Null: "
        "jobs.lease_seconds.",
    )
    max_attempts: Attempts | None = Field(
        None, description="Number of attempts before a job fails. Null: jobs.max_attempts."
    )
    refund_on_cancel: RefundOnCancel = Field(
        "all",
        description="Refund when a running job is canceled: all its tokens, or `unspent`, the share of the run that "
        "is left. A waiting job is always refunded in full.",
    )
    requirements: Requirements = Field(
        default_factory=Requirements,
        description="What an engine must have. Only workers that have it, or that do not report what they have, get "
        "the jobs.",
    )
    is_active: Switch = True


class UpdateWorkflow(UserRequest):
    """Fields that you leave out do not change."""

    name: Line | None = None
    description: Paragraph | None = None
    graph: Graph | None = None
    properties: Properties | None = None
    output_node_id: NodeId | None = Field(
        None, description="The node whose output is the result. Null: all outputs that the graph saves."
    )
    output_extension: Extension | None = None
    output_mime_type: MimeType | None = None
    keep_metadata: Switch | None = Field(
        None, description="Whether results keep the metadata that the engine wrote into them, which contains the graph."
    )
    run_limit_seconds: RunLimit | None = None
    lease_seconds: LeaseSeconds | None = Field(
        None,
        description="How long a worker may send no heartbeat before another worker gets its job, in seconds. Null: "
        "jobs.lease_seconds.",
    )
    max_attempts: Attempts | None = Field(
        None, description="Number of attempts before a job fails. Null: jobs.max_attempts."
    )
    refund_on_cancel: RefundOnCancel | None = Field(
        None,
        description="Refund when a running job is canceled. It applies to jobs that are submitted after this change.",
    )
    requirements: Requirements | None = Field(None, description="Replaces all requirements.")
    is_active: Switch | None = None
    version: Annotated[int, Field(ge=1, le=2**31 - 1), WHOLE] | None = Field(
        None,
        description="The version that you read. If the workflow was changed since then, the request is refused with "
        "409.",
    )


class WorkflowSummary(ResponseModel):
    id: int
    slug: str
    name: str
    description: str
    is_active: bool
    comfyui_workflow_path: str | None = Field(
        None, description="Path of the graph in storage. It is never overwritten."
    )
    properties: list[Property]
    output_node_id: str | None = None
    output_extension: str
    output_mime_type: str
    keep_metadata: bool
    run_limit_seconds: int
    lease_seconds: int | None = None
    max_attempts: int | None = None
    refund_on_cancel: RefundOnCancel
    requirements: Requirements = Field(default_factory=Requirements)
    required: Required | None = Field(
        None,
        description="Everything that an engine must have: what the graph names, and the requirements. Null: not known.",
    )
    created_at: datetime
    updated_at: datetime


class WorkflowDetail(WorkflowSummary):
    graph: dict[str, Any] | None = None
    version: int | None = Field(
        None,
        description="Number of the current version. Send it with a change: the change is refused if the version is "
        "outdated. Null: the workflow of an actor that was never changed.",
    )
    warnings: list[str] = Field(
        default_factory=list,
        description="After a change: node classes and models that the workflow needs and no online worker has.",
    )


class CreateAsset(UserRequest):
    name: Line
    mime_type: AssetMimeType
    size: Annotated[int, Field(ge=1, le=2**53), WHOLE]
    sha256: Sha256 | None = None


class AssetUse(ResponseModel):
    """A workflow or effect whose values name an asset."""

    type: Literal["workflow", "effect"]
    slug: str
    name: str


class Asset(ResponseModel):
    id: UUID
    status: Literal["pending", "ready"]
    name: str
    mime_type: str
    size: int
    sha256: str | None = None
    created_at: datetime
    url: str | None = Field(None, description="Signed URL of the file. Null until the asset is confirmed.")
    used_by: list[AssetUse] = Field(
        default_factory=list,
        description="Workflows and effects that name the asset. An asset with entries cannot be deleted.",
    )


class CreatedAsset(ResponseModel):
    """Upload the bytes, then confirm."""

    asset: Asset
    upload: UploadRequest
