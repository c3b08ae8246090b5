"""Typed generation jobs: their requests, and the products that scrapes find.

A request names a stored product by its id or contains the fields of a product. The payload of its actor (`…Input`)
contains the fields in both cases.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit
from uuid import UUID

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
)

from callsheet.wire.base import WHOLE, Line, ResponseModel, UserRequest, printable
from callsheet.wire.jobs import JobRequest

MAX_URL_LENGTH = 2_000
MAX_TITLE_LENGTH = 300
MAX_TEXT_LENGTH = 20_000
MAX_SPEECH_LENGTH = 5_000
MAX_PRICE_LENGTH = 40
MAX_IMAGES = 20


def _text(value: object) -> object:
    """Text of several lines. PostgreSQL and models cannot use other control characters."""
    if isinstance(value, str) and any(
        (ord(character) < 32 and character not in "\n\r\t") or character == "\x7f" for character in value
    ):
        raise ValueError("The text must not contain control characters.")
    return value


def _number(value: object) -> object:
    if isinstance(value, bool | str):
        raise ValueError("The value must be a number.")
    return value


def _web_address(value: str) -> str:
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        password = parts.username is not None or parts.password is not None
    except ValueError:
        usable = password = False
    if not usable or any(character.isspace() for character in value):
        raise ValueError("The value must be a URL like https://host/path.")
    if password:
        raise ValueError("The URL must not contain a user name or a password.")
    return value


Address = Annotated[
    str,
    StringConstraints(strip_whitespace=True, max_length=MAX_URL_LENGTH),
    BeforeValidator(printable),
    AfterValidator(_web_address),
    Field(json_schema_extra={"format": "uri", "pattern": r"^https?://[^\s/?#@]+[^\s@]*$"}),
]
# The pattern only documents what `_text` checks.
_DOCUMENTED = Field(json_schema_extra={"pattern": r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*$"})
_CHECKED = BeforeValidator(_text)
Title = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_TITLE_LENGTH), _CHECKED, _DOCUMENTED
]
Text = Annotated[str, StringConstraints(strip_whitespace=True, max_length=MAX_TEXT_LENGTH), _CHECKED, _DOCUMENTED]
Spoken = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_SPEECH_LENGTH), _CHECKED, _DOCUMENTED
]
Price = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_PRICE_LENGTH),
    BeforeValidator(printable),
    Field(json_schema_extra={"pattern": r"^[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f][^\x00-\x1f\x7f]*$"}),
]
Language = Annotated[str, StringConstraints(pattern=r"^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8}){0,3}$")]
Currency = Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$")]
AspectRatio = Literal["1:1", "4:5", "9:16", "16:9"]


class ProductFields(UserRequest):
    """A product that an advertisement is about."""

    title: Title
    description: Text = ""
    price: Price | None = Field(None, description="Price as a number with a decimal point, for example `19.99`.")
    currency: Currency | None = Field(None, description="ISO 4217 code of the currency, for example `EUR`.")
    images: list[Address] = Field(
        default_factory=list, max_length=MAX_IMAGES, description="URLs of images of the product, the best one first."
    )
    text: Text = Field("", description="The whole text of the product's page.")
    url: Address | None = Field(None, description="URL of the product's page.")


class _CopyChoices(UserRequest):
    style: Line = Field(
        "informative", description="Style of the text, for example `informative`, `playful` or `luxury`."
    )
    tone: Line | None = Field(None, description="Tone of the text, for example `friendly` or `formal`.")
    length: Literal["short", "medium", "long"] = "medium"
    language: Language = "en"


class _StaticAdChoices(UserRequest):
    style: Line = Field("lifestyle", description="Style of the image, for example `lifestyle`, `studio` or `minimal`.")
    aspect_ratio: AspectRatio = "1:1"
    headline: Line | None = Field(None, description="Text in the image.")


class _VideoChoices(UserRequest):
    script: Spoken | None = Field(
        None, validate_default=True, description="Script of the video. Default: the product's own texts."
    )
    style: Line = Field(
        "testimonial", description="Style of the video, for example `testimonial`, `unboxing` or `demo`."
    )
    duration_seconds: Annotated[int, Field(ge=1, le=60), WHOLE] = 5
    aspect_ratio: AspectRatio = "9:16"

    @field_validator("script")
    @classmethod
    def _about_something(cls, value: str | None, info: ValidationInfo) -> str | None:
        # A wrong product is not in the data, and has its own error already.
        named = [info.data.get(name, ...) for name in ("product", "product_id") if name in cls.model_fields]
        if value is None and all(product is None for product in named):
            raise ValueError("Send a script or a product.")
        return value


class _SpeechChoices(UserRequest):
    text: Spoken
    voice: Line | None = Field(None, description="One of the model's voices. Default: the model chooses.")
    language: Language = "en"
    speed: Annotated[float, Field(ge=0.5, le=2.0, allow_inf_nan=False), BeforeValidator(_number)] = 1.0


class CopyInput(_CopyChoices):
    product: ProductFields


class ScrapeInput(UserRequest):
    url: Address


class StaticAdInput(_StaticAdChoices):
    product: ProductFields


class _ProductOrNone(UserRequest):
    product: ProductFields | None = None


# The fields of the last base come first: the script is checked when it is known whether there is a product.
class VideoInput(_VideoChoices, _ProductOrNone):
    pass


class SpeechInput(_SpeechChoices):
    pass


class _OneProduct(UserRequest):
    product_id: UUID | None = Field(None, description="Id of a product that a scrape of yours found.")
    product: ProductFields | None = Field(None, description="The product's fields, instead of product_id.")

    @field_validator("product")
    @classmethod
    def _not_both(cls, value: ProductFields | None, info: ValidationInfo) -> ProductFields | None:
        if value is not None and info.data.get("product_id") is not None:
            raise ValueError("Send either this field or product_id, not both.")
        return value


class _OfProduct(_OneProduct):
    product: ProductFields | None = Field(
        None, validate_default=True, description="The product's fields. Send either these or product_id."
    )

    @field_validator("product")
    @classmethod
    def _one_of_them(cls, value: ProductFields | None, info: ValidationInfo) -> ProductFields | None:
        if value is None and info.data.get("product_id", ...) is None:
            raise ValueError("Send this field or product_id.")
        return value


class GenerateCopy(_CopyChoices, _OfProduct, JobRequest):
    """Advertising copy for a product."""


class GenerateScrape(ScrapeInput, JobRequest):
    """Read the product from a web page."""


class GenerateStaticAd(_StaticAdChoices, _OfProduct, JobRequest):
    """An advertising image for a product."""


class GenerateVideo(_VideoChoices, _OneProduct, JobRequest):
    """A video about a product or from a script."""


class GenerateSpeech(_SpeechChoices, JobRequest):
    """A text that is read aloud."""


class Product(ResponseModel):
    """A product that a scrape found."""

    id: UUID = Field(description="Id of the job that scraped the product.")
    url: str
    title: str
    description: str
    price: str | None = None
    currency: str | None = None
    images: list[str]
    text: str
    created_at: datetime


def actor_payload(request: UserRequest, product: Product | None = None) -> dict[str, Any]:
    """The payload for the actor of this request. `product`: the product with its `product_id`."""
    payload = request.model_dump(mode="json", exclude={"product_id", *JobRequest.model_fields})
    if product is not None:
        # A product of a page whose URL is too long to be stored has none.
        payload["product"] = {
            **product.model_dump(mode="json", exclude={"id", "created_at"}),
            "url": product.url or None,
        }
    return payload
