"""The actors of typed generation: `copy` and `scrape` run to the end, `static_ad`, `ugc_video` and `tts` call back.

Their payload is the typed input with the product's fields, for every way of submitting it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Generic, TypeVar, cast
from urllib.parse import urlsplit

from pydantic import ValidationError

from callsheet.providers.actor import Deferred, Done, Plan, Task
from callsheet.providers.ads.copywriting import NAME as COPYWRITING
from callsheet.providers.ads.copywriting import Copywriter, ModelWriter, TemplateWriter
from callsheet.providers.ads.prompts import ProviderRequest, image_request, speech_request, video_request
from callsheet.providers.ads.scraping import Scraper
from callsheet.providers.context import BuiltInContext
from callsheet.providers.errors import ProviderError
from callsheet.providers.media import Concurrency, Finish, Generation, WebhookProvider, found_or_submitted
from callsheet.providers.media_actor import FIELD
from callsheet.providers.payload_forms import ActorForm, model_schema
from callsheet.providers.replicate.responses import NAME as REPLICATE
from callsheet.wire.base import UserRequest
from callsheet.wire.errors import FieldProblem, InvalidRequest
from callsheet.wire.generation import CopyInput, ScrapeInput, SpeechInput, StaticAdInput, VideoInput
from callsheet.wire.reasons import reason_of

Input = TypeVar("Input", bound=UserRequest)
MARGIN_SECONDS: Final = 30


def read(model: type[Input], payload: Mapping[str, Any]) -> Input:
    """The typed input of a payload. Raises InvalidRequest with fields like `payload.style`."""
    try:
        return model.model_validate(payload)
    except ValidationError as wrong:
        problems = [
            FieldProblem(".".join(map(str, (FIELD, *each["loc"]))), reason_of(each))
            for each in wrong.errors(include_url=False, include_input=False)
        ]
        raise InvalidRequest.of(problems) from None


def read_again(model: type[Input], payload: Mapping[str, Any]) -> Input:
    """The typed input, read by a worker, which may be older than the control plane that accepted the task."""
    try:
        return read(model, payload)
    except InvalidRequest as invalid:
        raise ProviderError("invalid_request", str(invalid)) from None


EXAMPLE_PRODUCT: Final = {
    "title": "Desk lamp",
    "description": "Warm light, brass arm.",
    "price": "49.00",
    "currency": "EUR",
}


class CopyActor:
    name = "copy"
    title = "Copy"
    form = ActorForm(
        "Writes advertising copy for a product.",
        model_schema(CopyInput),
        {"product": EXAMPLE_PRODUCT, "style": "playful"},
    )

    def __init__(self, context: BuiltInContext):
        self._config = context.config.copywriting
        self._writer: Copywriter = TemplateWriter()
        if self._config.api_key is not None:
            self._writer = ModelWriter(self._config, context.clients.trusted())

    @property
    def providers(self) -> tuple[str, ...]:
        """The provider that plans name if there is an API key, so that only workers with the key take the tasks."""
        return (self._writer.provider,)

    @property
    def paid(self) -> bool:
        return self._writer.provider == COPYWRITING

    def plan(self, payload: Mapping[str, Any]) -> Plan:
        read(CopyInput, payload)
        seconds = int(self._config.request_seconds) + MARGIN_SECONDS
        limit = Concurrency(COPYWRITING, self._config.max_concurrent) if self.paid else None
        return Plan(self._writer.provider, Finish.SYNC, limit, seconds, makes_images=False)

    async def run(self, task: Task) -> Done:
        return Done(await self._writer.write(read_again(CopyInput, task.payload)))


class ScrapeActor:
    name = "scrape"
    title = "Product page"
    paid = False
    form = ActorForm(
        "Reads the product from a web page.", model_schema(ScrapeInput), {"url": "https://shop.example/lamp"}
    )

    def __init__(self, context: BuiltInContext):
        self._config = context.config.scraping
        self._scraper = Scraper(self._config, context.clients.guarded(timeout_seconds=self._config.timeout_seconds))

    def plan(self, payload: Mapping[str, Any]) -> Plan:
        read(ScrapeInput, payload)
        # Time for the rules of two sites, the page, and the parsing of the page.
        seconds = int(3 * self._config.timeout_seconds + self._config.read_seconds) + MARGIN_SECONDS
        limit = Concurrency(self.name, self._config.max_concurrent)
        return Plan(concurrency=limit, run_limit_seconds=seconds, makes_images=False)

    async def run(self, task: Task) -> Done:
        url = read_again(ScrapeInput, task.payload).url
        task.report_progress(None, f"Reading a page of {urlsplit(url).hostname}")
        return Done({"product": await self._scraper.scrape(url)})


class _CallingBack(Generic[Input]):
    """An actor with a model at a provider that calls back. The settings name the model."""

    name: ClassVar[str]
    model: ClassVar[type[UserRequest]]
    # Media types that a result must have; anything else is not a result.
    promised: ClassVar[tuple[str, ...]]
    # The provider itself declares this.
    paid: ClassVar[bool] = False
    makes_images: ClassVar[bool] = True

    def __init__(self, context: BuiltInContext):
        self._context = context

    def request(self, wanted: Input) -> ProviderRequest:
        raise NotImplementedError

    def plan(self, payload: Mapping[str, Any]) -> Plan:
        provider, generation = self._generation(payload)
        return Plan(
            provider=provider.name,
            finish=provider.finish,
            concurrency=provider.concurrency(generation),
            run_limit_seconds=provider.run_limit_seconds,
            action=generation.action,
            makes_images=self.makes_images,
        )

    async def run(self, task: Task) -> Deferred:
        if task.callback is None:
            raise ProviderError("no_callback", "The provider has no URL to call back. Set server.public_url.")
        try:
            provider, generation = self._generation(task.payload)
        except InvalidRequest as invalid:
            raise ProviderError("invalid_request", str(invalid)) from None
        prediction = await found_or_submitted(provider, generation, task.callback)
        return Deferred(prediction.id, provider.callback_seconds)

    def _generation(self, payload: Mapping[str, Any]) -> tuple[WebhookProvider, Generation]:
        wanted = cast("Input", read(self.model, payload))
        provider = self._context.media.get(REPLICATE)
        model = self._context.config.replicate.models.get(self.name)
        if provider is None:
            raise InvalidRequest.field(
                "provider", f"The provider of {self.name} is blocked: providers.blocked names {REPLICATE}."
            )
        if model is None:
            setting = f"providers.replicate.models.{self.name}"
            raise InvalidRequest.field("provider", f"The provider of {self.name} is not configured. Set {setting}.")
        request = self.request(wanted)
        # Inputs that not every model has are sent only if the settings of the model name them.
        extra = {name: value for name, value in request.extra.items() if name in model.inputs}
        given = {**request.params, **extra}
        params = {name: value for name, value in given.items() if value is not None and name not in model.fixed}
        generation = Generation(self.name, request.prompt, params)
        problems = list(provider.problems(generation))
        if problems:
            raise InvalidRequest.of(problems)
        return cast("WebhookProvider", provider), generation


class StaticAdActor(_CallingBack[StaticAdInput]):
    name = "static_ad"
    title = "Static ad"
    form = ActorForm(
        "Makes an advertising image for a product.", model_schema(StaticAdInput), {"product": EXAMPLE_PRODUCT}
    )
    model = StaticAdInput
    promised = ("image/*",)

    def request(self, wanted: StaticAdInput) -> ProviderRequest:
        return image_request(wanted)


class VideoActor(_CallingBack[VideoInput]):
    name = "ugc_video"
    title = "Video ad"
    form = ActorForm(
        "Makes a video about a product or from a script.", model_schema(VideoInput), {"script": "Look at this lamp!"}
    )
    model = VideoInput
    promised = ("video/*",)

    def request(self, wanted: VideoInput) -> ProviderRequest:
        return video_request(wanted)


class SpeechActor(_CallingBack[SpeechInput]):
    name = "tts"
    title = "Speech"
    form = ActorForm("Reads a text aloud.", model_schema(SpeechInput), {"text": "Hello there."})
    model = SpeechInput
    # A video container with only sound cannot be distinguished from a video by its first bytes.
    promised = ("audio/*", "video/mp4", "video/webm")
    makes_images = False

    def request(self, wanted: SpeechInput) -> ProviderRequest:
        return speech_request(wanted)


_TYPED: Final = (StaticAdActor, VideoActor, SpeechActor)
# Actions of Replicate that typed jobs use, and the actor of each: `replicate/static_ad` is the model of `static_ad`.
TYPED_ACTIONS: Final[Mapping[str, str]] = {f"{REPLICATE}/{actor.name}": actor.name for actor in _TYPED}
_PROMISED: Final[Mapping[str, tuple[str, ...]]] = {actor.name: actor.promised for actor in _TYPED}


def promised_types(actor: str | None, action: str | None, provider: str) -> tuple[str, ...]:
    """Media types that the result of such a task must have; empty if any result is valid, also text."""
    typed = actor if actor in _PROMISED else TYPED_ACTIONS.get(f"{provider}/{action}")
    return _PROMISED[typed] if typed is not None else ()
