"""Settings of the provider `comfyui`: the effect for each action of a media task."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from callsheet.toolbox.sections import Section
from callsheet.wire.forms import PropertyKey, Slug

ActionName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,62}$")]


class ComfyUIAction(Section):
    effect: Slug = Field(description="Slug of the effect whose job the task becomes.")
    prompt: PropertyKey | Literal[""] = Field(
        "prompt", description="Property that gets the prompt. Empty: the effect takes no prompt."
    )


class ComfyUIConfig(Section):
    actions: dict[ActionName, ComfyUIAction] = Field(
        default_factory=dict,
        description='Actions by name, for example {"txt2img": {"effect": "portrait"}}. The action `effect` always '
        "exists: it takes the effect's slug from the task.",
    )
