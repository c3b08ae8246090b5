"""The price of a task: one pure rule for tasks, typed jobs and steps of pipelines.

The setting `tasks.costs` has the price, by `provider/action`, by `provider/*` or by the actor's name. A task that calls
a paid service is free only if its price is set to 0: without a price, the task is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from callsheet.providers.actor import Actor, Plan
from callsheet.providers.ads.actors import TYPED_ACTIONS
from callsheet.providers.media import Finish, MediaProvider
from callsheet.providers.media_actor import MediaActor
from callsheet.wire.errors import InvalidRequest

ANY_ACTION: Final = "*"
MEDIA: Final = MediaActor.name


class TaskPrices:
    def __init__(self, costs: Mapping[str, int], media: Mapping[str, MediaProvider]):
        # A model has the same price through the actor `media` and through a typed job, because the call is the same.
        typed = {action: costs[kind] for action, kind in TYPED_ACTIONS.items() if kind in costs}
        self._costs = {**typed, **costs}
        self._paid: Collection[str] = frozenset(name for name, provider in media.items() if provider.paid)

    def of(self, actor: Actor, plan: Plan) -> int:
        """The price of a task. Raises InvalidRequest if the task calls a paid service without a price."""
        found = self.known(actor, plan.provider, plan.action)
        if found is None:
            name = price_names(actor.name, plan.provider, plan.action)[0]
            field = "actor" if plan.action is None else "payload.action_type"
            raise InvalidRequest.field(field, no_price(name))
        return found

    def known(self, actor: Actor, provider: str, action: str | None) -> int | None:
        """The price of a task, or None if the task calls a paid service without a price."""
        for name in price_names(actor.name, provider, action):
            if name in self._costs:
                return self._costs[name]
        return None if actor.paid or provider in self._paid else 0

    def of_actor(self, actor: Actor) -> int | None:
        """The price of all tasks of the actor. None if the price depends on the provider, or is not set."""
        if actor.name in self._costs:
            return self._costs[actor.name]
        return None if actor.paid or actor.name == MEDIA else 0

    def missing(self, actors: Mapping[str, Actor], media: Mapping[str, MediaProvider]) -> Iterator[str]:
        """Keys of `tasks.costs` that are needed before these actors and actions can be used."""
        for name, actor in sorted(actors.items()):
            if actor.paid and name not in self._costs:
                yield name
        through = actors.get(MEDIA)
        if through is None:
            return
        for name, provider in sorted(media.items()):
            for action in sorted(provider.actions):
                if provider.finish is not Finish.WORKER and self.known(through, name, action) is None:
                    yield f"{name}/{action}"


def price_names(actor: str, provider: str, action: str | None) -> tuple[str, ...]:
    """Keys of `tasks.costs` that may have the price. The first existing key is used."""
    if action is None:
        return (actor,)
    return (f"{provider}/{action}", f"{provider}/{ANY_ACTION}", actor)


def no_price(name: str) -> str:
    return (
        f"{name} calls a paid service and has no price. An operator must set it in tasks.costs, "
        f'for example "{name}" = 5. The price 0 makes it free.'
    )
