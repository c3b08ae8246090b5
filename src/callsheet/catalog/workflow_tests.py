"""Builds the recipe of a test run: the workflow as it is saved, or with changes that are not saved (a draft)."""

from __future__ import annotations

from collections.abc import Sequence

from callsheet.catalog.graph_store import GraphStore
from callsheet.catalog.offers import FREE, EffectRecipe
from callsheet.catalog.properties import check_overrides
from callsheet.catalog.workflows import Workflows, checked, refuse
from callsheet.wire.catalog import Property
from callsheet.wire.errors import FieldProblem, InvalidRequest, Refusal, WrongState
from callsheet.wire.workflow_editing import WorkflowDraft, WorkflowTest

OUTPUT_FIELDS = ("output_node_id", "output_extension", "output_mime_type", "keep_metadata")


class WorkflowTests:
    def __init__(self, workflows: Workflows, graphs: GraphStore):
        self._workflows = workflows
        self._graphs = graphs

    async def recipe(self, slug: str, request: WorkflowTest) -> EffectRecipe:
        """A recipe without an effect and without a price. All its properties can be set."""
        found = await self._workflows.get(slug)
        if not found.is_active:
            raise WrongState(f"Workflow {slug} is not active, so no worker gets its jobs. Activate it first.")
        draft = request.draft or WorkflowDraft()
        # A null is ignored, except for the output node, where it means all outputs of the graph.
        given = {
            name: value
            for name in draft.model_fields_set
            if (value := getattr(draft, name)) is not None or name == "output_node_id"
        }
        values = {name: given.get(name, getattr(found, name)) for name in OUTPUT_FIELDS}
        properties: Sequence[Property] = given.get("properties", found.properties)
        try:
            graph = checked(given.get("graph", found.graph), properties, values)
        except Refusal as refusal:
            problems = [FieldProblem(f"draft.{each.field}", each.reason) for each in refusal.errors]
            raise InvalidRequest.of(problems) from None
        if graph is None:
            raise InvalidRequest.field("draft.graph", f"The workflow {slug!r} has no graph, so no engine can run it.")
        settable = tuple(each.model_copy(update={"user_configurable": True}) for each in properties)
        refuse(check_overrides(settable, request.overrides))
        return EffectRecipe(
            effect_id=None,
            name=found.name,
            has_jobs=True,
            workflow_id=found.id,
            is_active=True,
            properties=settable,
            overrides=dict(request.overrides),
            price=FREE,
            provider=request.provider,
            stage=request.stage,
            run_limit_seconds=found.run_limit_seconds,
            lease_seconds=found.lease_seconds,
            max_attempts=found.max_attempts,
            refund_on_cancel=found.refund_on_cancel,
            # The graph of a draft is stored under its hash, so it replaces no other graph. A later save writes the
            # same file.
            graph_path=await self._graphs.write(slug, graph),
            **values,
        )
