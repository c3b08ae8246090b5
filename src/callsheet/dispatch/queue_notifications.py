"""Notifications about the queue between control planes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from callsheet.dispatch.facts import Lane

CHANNEL = "dispatch"


@dataclass(frozen=True, slots=True)
class Arrival:
    """The notification that jobs of this route may be leased now: jobs of this lane or, without a lane, jobs that
    waited for a slot. It does not name a job, so any number of jobs that enter one lane together need one
    notification.
    """

    workflow_id: int
    stage: str
    provider: str
    lane: Lane | None = None

    @property
    def route(self) -> tuple[int, str, str]:
        return self.workflow_id, self.stage, self.provider

    def write(self) -> str:
        values: list[object] = [self.workflow_id, self.stage, self.provider]
        if self.lane is not None:
            values += map(_plain, self.lane)
        return json.dumps(values, separators=(",", ":"))

    @classmethod
    def read(cls, payload: str) -> Arrival:
        workflow_id, stage, provider, *of_lane = json.loads(payload)
        if not of_lane:
            return cls(workflow_id, stage, provider)
        lane = Lane(*of_lane)
        lane = lane._replace(tenant_id=UUID(str(lane.tenant_id)), user_id=UUID(str(lane.user_id)))
        return cls(workflow_id, stage, provider, lane)


def announcer(notify: Callable[[str, str], None]) -> Callable[[int, str, str, Lane | None], None]:
    """The function that the queue calls for each row that can be leased now."""

    def announce(workflow_id: int, stage: str, provider: str, lane: Lane | None) -> None:
        notify(CHANNEL, Arrival(workflow_id, stage, provider, lane).write())

    return announce


def _plain(value: object) -> object:
    return str(value) if isinstance(value, UUID) else value
