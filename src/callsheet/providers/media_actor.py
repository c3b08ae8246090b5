"""The actor `media`: its tasks name a provider, an action and parameters.

The provider decides which parameters are valid, how many tasks run at once and how they end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, cast

from callsheet.providers.actor import Deferred, Done, Plan, Task
from callsheet.providers.context import BuiltInContext
from callsheet.providers.errors import ProviderError
from callsheet.providers.media import (
    Finish,
    Generation,
    MediaProvider,
    SyncProvider,
    WebhookProvider,
    WorkerProvider,
    found_or_submitted,
)
from callsheet.providers.payload_forms import ActorForm, PayloadForm, object_schema
from callsheet.wire.errors import FieldProblem, InvalidRequest
from callsheet.wire.reasons import REQUIRED

# The last three are references of the caller. They are stored and returned with the task.
FIELDS: Final = (
    *("provider", "action_type", "prompt", "params"),
    *("workflow_run_id", "interaction_id", "prompt_id"),
)
NO_STORED_PROMPTS: Final = (
    "Callsheet stores no prompts, so prompt_id is only a reference of your own. Send the text as `prompt`."
)
NO_SOURCE_DATA: Final = (
    "source_data is sent to no provider. Use `params` for the values of the provider, and `interaction_id` for your "
    "own reference."
)
FIELD: Final = "payload"
# Engines and services have their own limits. This limit is for tables and pages.
MAX_PROMPT_LENGTH: Final = 100_000
NOTHING: Final = "none"
CHOSEN: Final = {"provider": "Provider", "action_type": "Action"}


class MediaActor:
    name = "media"
    title = "Image, video or audio"
    # The providers themselves declare this.
    paid = False

    def __init__(self, context: BuiltInContext):
        self._media = context.media

    @property
    def form(self) -> ActorForm:
        variants = [
            _form_of(provider, action)
            for _, provider in sorted(self._media.items())
            for action in sorted(provider.actions)
        ]
        return ActorForm(
            "Makes an image, a video or audio with the provider that you choose.", _schema({}, {}), variants=variants
        )

    def plan(self, payload: Mapping[str, Any]) -> Plan:
        provider, generation = self._generation_of(payload)
        return Plan(
            provider=provider.name,
            finish=provider.finish,
            concurrency=provider.concurrency(generation),
            run_limit_seconds=provider.run_limit_seconds,
            action=generation.action,
            effect=cast("WorkerProvider", provider).effect(generation) if provider.finish is Finish.WORKER else None,
        )

    async def run(self, task: Task) -> Done | Deferred:
        provider, generation = self._found(task.payload)
        generation = replace(generation, own_url=task.input_url)
        match provider.finish:
            case Finish.SYNC:
                made = await cast("SyncProvider", provider).generate(generation, task.directory, task.report_progress)
                result = {"provider": provider.name, "action": generation.action, "details": dict(made.details)}
                return Done(result, made.files, made.provider_job_id)
            case Finish.WEBHOOK:
                return await self._submitted(cast("WebhookProvider", provider), generation, task)
            case Finish.WORKER:
                raise ProviderError("wrong_worker", "This task needs a worker with an engine.", retryable=True)

    async def _submitted(self, provider: WebhookProvider, generation: Generation, task: Task) -> Deferred:
        if task.callback is None:
            raise ProviderError("no_callback", "The provider has no URL to call back. Set server.public_url.")
        prediction = await found_or_submitted(provider, generation, task.callback)
        return Deferred(prediction.id, provider.callback_seconds)

    def _found(self, payload: Mapping[str, Any]) -> tuple[MediaProvider, Generation]:
        """The provider and the request, for a worker. Its settings may differ from those of the control plane that
        accepted the task, so another worker may be able to run it.
        """
        try:
            return self._generation_of(payload)
        except InvalidRequest as invalid:
            details = {each.field: each.reason for each in invalid.errors}
            raise ProviderError("invalid_request", str(invalid), retryable=True, details=details) from None

    def _generation_of(self, payload: Mapping[str, Any]) -> tuple[MediaProvider, Generation]:
        refuse([*_wrong_shape(payload), *_not_used(payload)])
        provider = self._media.get(payload["provider"])
        if provider is None:
            raise InvalidRequest.field(
                f"{FIELD}.provider",
                f"Unknown provider {payload['provider'][:100]!r}. Available: {listed(self._media)}.",
            )
        action = payload["action_type"]
        if action not in provider.actions:
            reason = (
                f"The provider {provider.name} has no action {action[:100]!r}. Available: {listed(provider.actions)}."
            )
            raise InvalidRequest.field(f"{FIELD}.action_type", reason)
        generation = Generation(action, payload.get("prompt") or "", payload.get("params") or {})
        refuse(FieldProblem(f"{FIELD}.{each.field}", each.reason) for each in provider.problems(generation))
        return provider, generation


def _form_of(provider: MediaProvider, action: str) -> PayloadForm:
    """The form of an action. A provider may describe the parameters of its action with `params_schema`; otherwise
    any parameters are accepted.
    """
    schema_of = getattr(provider, "params_schema", None)
    params = schema_of(action) if callable(schema_of) else {"type": "object", "additionalProperties": True}
    values = {"provider": provider.name, "action_type": action}
    title = f"{provider.name}: {action.replace('_', ' ')}"
    return PayloadForm(title, _schema(values, params), values, provider=provider.name, action=action)


def _schema(values: Mapping[str, str], params: dict[str, Any]) -> dict[str, Any]:
    """The schema of a payload. `values` are fixed."""
    chosen = {name: {"type": "string", "title": title} for name, title in CHOSEN.items()}
    return object_schema(
        {
            **{name: {**each, **({"const": values[name]} if values else {})} for name, each in chosen.items()},
            "prompt": {"type": "string", "title": "Prompt", "maxLength": MAX_PROMPT_LENGTH, "default": ""},
            "params": {"title": "Parameters", **(params or {"type": "object", "additionalProperties": True})},
        },
        CHOSEN,
    )


def _wrong_shape(payload: Mapping[str, Any]) -> Iterator[FieldProblem]:
    for name in payload.keys() - {*FIELDS, "source_data"}:
        yield FieldProblem(f"{FIELD}.{name[:100]}", f"A media task has no such field. Available: {listed(FIELDS)}.")
    for name in ("provider", "action_type"):
        if not isinstance(payload.get(name), str) or not payload[name]:
            yield FieldProblem(f"{FIELD}.{name}", "The value must be a text." if name in payload else REQUIRED)
    prompt = payload.get("prompt")
    if prompt is not None and not isinstance(prompt, str):
        yield FieldProblem(f"{FIELD}.prompt", "The value must be a text.")
    elif prompt and len(prompt) > MAX_PROMPT_LENGTH:
        yield FieldProblem(f"{FIELD}.prompt", f"The prompt must have at most {MAX_PROMPT_LENGTH} characters.")
    if not isinstance(payload.get("params"), Mapping | None):
        yield FieldProblem(f"{FIELD}.params", "The value must be an object.")
    for name in ("workflow_run_id", "interaction_id", "prompt_id"):
        if payload.get(name) is not None and not isinstance(payload[name], str):
            yield FieldProblem(f"{FIELD}.{name}", "The value must be a text.")


def _not_used(payload: Mapping[str, Any]) -> Iterator[FieldProblem]:
    """Problems of fields that other systems use. If they were ignored, the result would differ from the request."""
    if payload.get("source_data"):
        yield FieldProblem(f"{FIELD}.source_data", NO_SOURCE_DATA)
    if payload.get("prompt_id") and not payload.get("prompt"):
        yield FieldProblem(f"{FIELD}.prompt_id", NO_STORED_PROMPTS)


def refuse(problems: Iterable[FieldProblem]) -> None:
    found = sorted(problems, key=lambda each: each.field)
    if found:
        raise InvalidRequest.of(found)


def listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or NOTHING
