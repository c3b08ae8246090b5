"""`comfyui`: media tasks that become jobs of an effect, which an agent beside an engine leases.

The catalog knows the nodes, models and inputs of an effect, and checks the values of a task.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final
from uuid import UUID

from callsheet.providers.comfy.config import ComfyUIConfig
from callsheet.providers.context import BuiltInContext
from callsheet.providers.media import Concurrency, EffectUse, Finish, Generation, MediaProvider
from callsheet.wire.errors import FieldProblem
from callsheet.wire.reasons import REQUIRED

# The action whose task names its effect.
EFFECT: Final = "effect"
PROMPT: Final = "prompt"


def configured(context: BuiltInContext) -> Iterable[MediaProvider]:
    return [ComfyUIQueue(context.config.comfyui)]


class ComfyUIQueue:
    name = "comfyui"
    finish = Finish.WORKER
    # A task becomes the job of an effect, which has its own price.
    paid = False
    # The limit of the effect is used. The interface requires this value.
    run_limit_seconds = 3600

    def __init__(self, config: ComfyUIConfig):
        self._actions = config.actions

    @property
    def actions(self) -> frozenset[str]:
        return frozenset({EFFECT, *self._actions})

    def params_schema(self, action: str) -> dict[str, Any]:
        """The schema of the parameters. The effect's properties are additional parameters: `GET /api/effects` lists
        them.
        """
        file = {"type": "string", "format": "uuid", "title": "Input file", "description": "Id of a file of yours."}
        effect = {"type": "string", "title": "Effect", "description": "Slug of an effect."}
        properties = {"input_file_id": file} if action in self._actions else {"effect": effect, "input_file_id": file}
        required = [] if action in self._actions else ["effect"]
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": True}

    def problems(self, generation: Generation) -> Iterable[FieldProblem]:
        chosen = self._actions.get(generation.action)
        if chosen is not None and generation.prompt and not chosen.prompt:
            yield FieldProblem("prompt", f"The action {generation.action} takes no prompt.")
        if chosen is None:
            slug = generation.params.get("effect")
            if not isinstance(slug, str) or not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,62}", slug):
                yield FieldProblem("params.effect", "The value must be the slug of an effect." if slug else REQUIRED)
        file_id = generation.params.get("input_file_id")
        if file_id is not None and not _is_id(file_id):
            yield FieldProblem("params.input_file_id", "The value must be the id of a file.")

    def concurrency(self, generation: Generation) -> Concurrency | None:
        # As many as the workers can run.
        return None

    def preview_info(self, generation: Generation) -> Mapping[str, Any]:
        use = self.effect(generation)
        return {"effect": use.effect, "input_payload": use.input_payload}

    def effect(self, generation: Generation) -> EffectUse:
        """The effect of a task. `effect` and `input_file_id` of the params are for this provider, the others are for
        the effect's properties.
        """
        values = dict(generation.params)
        file_id = values.pop("input_file_id", None)
        chosen = self._actions.get(generation.action)
        slug, key = (values.pop("effect"), PROMPT) if chosen is None else (chosen.effect, chosen.prompt)
        places = {
            "input_file_id": "params.input_file_id",
            "effect_id": "params.effect" if chosen is None else "action_type",
        }
        if key and key not in values:
            places[f"input_payload.{key}"] = "prompt"
            values = {**values, **({key: generation.prompt} if generation.prompt else {})}
        return EffectUse(slug, values, file_id, places)

    async def close(self) -> None:
        """There is nothing to close."""


def _is_id(value: object) -> bool:
    try:
        return isinstance(value, str) and str(UUID(value)) == value.lower()
    except ValueError:
        return False
