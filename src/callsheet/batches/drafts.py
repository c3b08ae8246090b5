"""A batch as it would be submitted now: the jobs of its items, and everything that is wrong with them. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from uuid import UUID

from callsheet.batches.items import Item
from callsheet.catalog.offers import EffectRecipe
from callsheet.identity.access.principal import Principal
from callsheet.jobs.submit.drafts import Draft
from callsheet.jobs.submit.new_jobs import NewJob
from callsheet.wire.effects import SubmitBatch
from callsheet.wire.errors import InvalidRequest, Refusal

# Problems that one response names.
MAX_PROBLEMS = 20


@dataclass(frozen=True, slots=True)
class DraftItem:
    item: Item
    draft: Draft


@dataclass(frozen=True)
class BatchDraft:
    recipe: EffectRecipe
    request: SubmitBatch
    items: Sequence[DraftItem]

    @cached_property
    def refusals(self) -> Sequence[tuple[int, Refusal]]:
        """What is wrong with the items, each with the number of its item."""
        return [
            (number, each.item.named(each.draft.refusal))
            for number, each in enumerate(self.items, 1)
            if each.draft.refusal is not None
        ]

    @property
    def costs(self) -> Sequence[int | None]:
        """The price of each item. None if its values leave the price open."""
        return [each.draft.cost for each in self.items]

    @property
    def cost(self) -> int:
        """The price of all items whose price is known."""
        return sum(cost for cost in self.costs if cost is not None)

    def refuse(self) -> None:
        """Raises if an item is wrong. The refusal names each item and field that is wrong."""
        wrong = [each for _, each in self.refusals if isinstance(each, InvalidRequest)]
        problems = list(dict.fromkeys(problem for each in wrong for problem in each.errors))
        if problems:
            raise InvalidRequest.of(problems[:MAX_PROBLEMS])
        for _, refusal in self.refusals:
            raise refusal

    def jobs(self, principal: Principal, batch_id: UUID) -> list[NewJob]:
        """The jobs of all items. The price of a job is 0 if it is not known."""
        return [
            replace(
                each.draft.new,
                cost=each.draft.cost or 0,
                batch_id=batch_id,
                batch_item=number,
                key_id=principal.key_id,
                client_reference=each.item.client_reference,
                metadata=each.item.metadata,
                webhook_url=self.request.webhook_url,
            )
            for number, each in enumerate(self.items, 1)
        ]
