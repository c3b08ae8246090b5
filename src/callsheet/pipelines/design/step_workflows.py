"""The workflows that a step of a pipeline can use, with the data for the pipeline editor. Each is an effect that
makes images: a workflow with values and a price.
"""

from __future__ import annotations

from uuid import UUID

from callsheet.catalog.image_effects import ImageEffect, ImageEffects
from callsheet.catalog.pricing.prices import depends_on_files
from callsheet.catalog.properties import primary_input
from callsheet.pipelines.run.workflow_placeholders import PARENT, PROMPT, SEED, file_property, property_of, undescribed
from callsheet.wire.base import Page
from callsheet.wire.catalog import FILES, PropertyType
from callsheet.wire.pipelines.design import StepWorkflow

# Templates of pipelines use the newest effects, at most this number.
MAX_EFFECTS = 200


class StepWorkflows:
    def __init__(self, effects: ImageEffects):
        self._effects = effects

    async def page(self, before: UUID | None, limit: int) -> Page[StepWorkflow]:
        """A page of workflows. It may have fewer items than `limit`, because effects that no step can use are left
        out.
        """
        found, cursor = await self._effects.page(before, limit)
        items = [step_workflow(each) for each in found if can_be_step(each)]
        return Page(items=items, next_cursor=str(cursor) if cursor else None)

    async def newest(self) -> list[StepWorkflow]:
        return (await self.page(None, MAX_EFFECTS)).items


def can_be_step(effect: ImageEffect) -> bool:
    """Whether a step can use the effect. A step passes at most one image to its workflow, so an effect that requires
    another file cannot be a step, unless the file has a default. Nor can one whose price depends on a file.
    """
    if depends_on_files(effect.price_formula):
        return False
    primary = primary_input(effect.properties)
    if primary is not None and primary.type is not PropertyType.IMAGE:
        return False
    return not any(
        each.required
        and each.type in FILES
        and each is not file_property(effect)
        and effect.overrides.get(each.key, each.default) is None
        for each in effect.properties
    )


def step_workflow(effect: ImageEffect) -> StepWorkflow:
    names = undescribed(effect, effect.graph)
    prompt, seed = property_of(effect, PROMPT), property_of(effect, SEED)
    return StepWorkflow(
        workflow=effect.workflow,
        effect=effect.slug,
        effect_id=effect.id,
        name=effect.name,
        description=effect.description,
        credits_cost=effect.credits_cost,
        price_formula=effect.price_formula,
        is_available=effect.is_active,
        preview=effect.preview,
        takes_image=file_property(effect) is not None or PARENT in names,
        needs_image=primary_input(effect.properties) is not None,
        prompt_property=prompt.key if prompt and prompt.user_configurable else None,
        seed_property=seed.key if seed and seed.user_configurable else None,
        placeholders=sorted(names - {PARENT, SEED}),
        properties=[
            effect.view(each) for each in effect.properties if each.user_configurable and each.type not in FILES
        ],
    )
