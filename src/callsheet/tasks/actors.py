"""Actors and their workflows: one workflow for each actor and queue, because the queue routes by workflow."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements
from callsheet.providers.actor import Actor, Plan, title_of
from callsheet.providers.media import Finish, MediaProvider
from callsheet.providers.payload_forms import PayloadForm, form_of
from callsheet.settings import TaskSettings
from callsheet.settings.tasks import DEFAULT_QUEUE
from callsheet.tasks.prices import MEDIA, TaskPrices
from callsheet.toolbox.logs import get_logger
from callsheet.wire.catalog import RefundOnCancel
from callsheet.wire.errors import InvalidRequest, Refusal
from callsheet.wire.tasks import ActorInfo, ActorVariant, workflow_slug

SQL = statements("callsheet.tasks")
log = get_logger(__name__)
# Seconds for which the workflows are cached, because every task needs them. Switching a workflow off may take this
# long.
FRESH_SECONDS = 2.0


class ActorWorkflow(NamedTuple):
    """The workflow of an actor in a queue, with the options that an operator may set."""

    id: int
    slug: str
    is_active: bool
    refund_on_cancel: RefundOnCancel


class Actors:
    def __init__(
        self,
        databases: Databases,
        actors: Mapping[str, Actor],
        media: Mapping[str, MediaProvider],
        settings: TaskSettings,
    ):
        self._databases = databases
        self._actors = actors
        self._media = media
        self.prices = TaskPrices(settings.costs, media)
        self._queues = (DEFAULT_QUEUE, *(name for name in settings.queues if name != DEFAULT_QUEUE))
        # The active workflows by slug, and the time when they were read.
        self._active: Mapping[str, ActorWorkflow] = {}
        self._read_at = float("-inf")

    async def keep(self) -> None:
        """Creates the missing workflows. Workflows of removed actors stay: another control plane may still have the
        actor, and this one refuses its tasks. Warns of actors and actions without a price.
        """
        slugs = self._slugs()
        for name in self.prices.missing(self._actors, self._media):
            log.warning("task.no_price", setting="tasks.costs", name=name)
        async with self._databases.central.connection() as connection:
            await SQL["keep_workflows"].run(
                connection,
                slugs=[slug for slug, _, _ in slugs],
                names=[
                    f"Tasks of {actor}" if queue == DEFAULT_QUEUE else f"Tasks of {actor} in {queue}"
                    for _, actor, queue in slugs
                ],
                descriptions=["Task workers run this workflow. It belongs to an actor and has no graph."] * len(slugs),
            )

    def named(self, name: str, field: str = "actor") -> Actor:
        actor = self._actors.get(name)
        if actor is None:
            raise InvalidRequest.field(field, f"Unknown actor {name[:100]!r}. Available: {_listed(self._actors)}.")
        return actor

    async def workflow(self, actor: str, queue_name: str) -> ActorWorkflow:
        """The workflow that routes tasks of this actor in this queue."""
        if queue_name not in self._queues:
            raise InvalidRequest.field(
                "queue_name", f"Unknown queue {queue_name[:100]!r}. Available: {_listed(self._queues)}."
            )
        found = (await self._active_now()).get(workflow_slug(actor, queue_name))
        if found is None:
            raise InvalidRequest.field(
                "actor", f"The actor {actor!r} is switched off in the queue {queue_name!r}, so it accepts no tasks."
            )
        return found

    def costs_of(self, provider: MediaProvider) -> dict[str, int | None]:
        """The price of a media task by action. None if no price is set, or if an effect sets it."""
        media = self._actors.get(MEDIA)
        if media is None or provider.finish is Finish.WORKER:
            return dict.fromkeys(sorted(provider.actions))
        return {action: self.prices.known(media, provider.name, action) for action in sorted(provider.actions)}

    async def list(self) -> list[ActorInfo]:
        active = await self._active_now()
        return [
            self._info(self._actors[name], is_active=workflow_slug(name) in active) for name in sorted(self._actors)
        ]

    def _info(self, actor: Actor, *, is_active: bool) -> ActorInfo:
        form = form_of(actor)
        plan = self._plan_of_example(actor, form.example)
        return ActorInfo(
            name=actor.name,
            title=title_of(actor),
            description=form.description,
            queues=[*self._queues],
            cost=self.prices.of_actor(actor),
            is_active=is_active,
            is_ready=is_active and (form.example is None or plan is not None),
            makes_images=form.example is None or (plan is not None and plan.makes_images),
            payload_schema=form.schema,
            example=None if form.example is None else dict(form.example),
            variants=[
                ActorVariant(
                    title=each.title,
                    values=dict(each.values),
                    payload_schema=each.schema,
                    cost=self._cost_of(actor, each),
                )
                for each in form.variants
            ],
        )

    def _plan_of_example(self, actor: Actor, example: Mapping[str, Any] | None) -> Plan | None:
        """The plan of the actor's example; None if there is no example, or if a task like it would be refused now."""
        if example is None:
            return None
        try:
            plan = actor.plan(example)
            self.prices.of(actor, plan)
        except Refusal:
            return None
        except Exception:
            # Any package may add an actor, so a plan may raise any exception.
            log.exception("actor.plan_failed", actor=actor.name)
            return None
        return plan

    def _cost_of(self, actor: Actor, form: PayloadForm) -> int | None:
        provider = self._media.get(form.provider or "")
        if provider is None or provider.finish is Finish.WORKER:
            return None
        return self.prices.known(actor, provider.name, form.action)

    async def _active_now(self) -> Mapping[str, ActorWorkflow]:
        now = time.monotonic()
        if now - self._read_at > FRESH_SECONDS:
            async with self._databases.central.connection() as connection:
                rows = await SQL["find_workflows"].rows(
                    connection, ActorWorkflow, slugs=[slug for slug, _, _ in self._slugs()]
                )
            self._active = {row.slug: row for row in rows if row.is_active}
            self._read_at = now
        return self._active

    def _slugs(self) -> Sequence[tuple[str, str, str]]:
        return [(workflow_slug(actor, queue), actor, queue) for actor in self._actors for queue in self._queues]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
