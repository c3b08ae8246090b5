"""The queue views of this control plane, and the dispatches in flight that they count."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import product

from callsheet.dispatch.facts import Criteria, Lane, Route
from callsheet.dispatch.order.queue_view import QueueView
from callsheet.dispatch.order.user_queues import TermsOf


class Turns:
    """The views of this control plane. The first lease with new criteria creates a view."""

    def __init__(self, terms_of: TermsOf):
        self._terms_of = terms_of
        self._views: dict[Criteria, QueueView] = {}
        self._on_route: dict[Route, list[QueueView]] = {}
        # Each dispatch in flight: its lane, and the moment at which it was first seen in flight.
        self._held: dict[int, tuple[Lane, int]] = {}
        # Dispatches that ended since `begin_reading`. None if no read is in progress.
        self._ended: set[int] | None = None
        # The moment of each lane's latest arrival.
        self._announce: dict[int, int] = {}
        self._youngest = 0
        self.moment = 0

    def view(self, criteria: Criteria) -> QueueView:
        view = self._views.get(criteria)
        if view is None:
            view = self._views[criteria] = QueueView(criteria, self._terms_of)
            for route in _routes(criteria):
                self._on_route.setdefault(route, []).append(view)
            for lane, _ in self._held.values():
                if criteria.matches(*lane.route):
                    view.start(lane)
        return view

    @property
    def views(self) -> Collection[QueueView]:
        return self._views.values()

    def drop(self, view: QueueView) -> None:
        """Drops a view for which no worker has polled lately."""
        for lane in tuple(view.lanes()):
            self._announce.pop(lane.lane_id, None)
        del self._views[view.criteria]
        for route in _routes(view.criteria):
            self._on_route[route].remove(view)
            if not self._on_route[route]:
                del self._on_route[route]

    def arrive(self, lane: Lane, oldest: int | None = None) -> None:
        """Records that the lane has work. `oldest`: the id of its oldest job; None if the job is younger than all
        known jobs.
        """
        if oldest is None:
            oldest = self._youngest + 1
        self._youngest = max(self._youngest, oldest)
        views = self._on_route.get(lane.route)
        if not views:
            return
        self.moment += 1
        self._announce[lane.lane_id] = self.moment
        for view in views:
            view.arrive(lane, oldest)

    def leave(self, lanes: Iterable[Lane], moment: int) -> None:
        """Records that the lanes had no work at that moment. A lane that got work since then stays."""
        for lane in lanes:
            if self._announce.get(lane.lane_id, 0) <= moment:
                self._announce.pop(lane.lane_id, None)
                for view in self._on_route.get(lane.route, ()):
                    view.leave(lane)

    def free(self, workflow_id: int, stage: str, provider: str) -> None:
        """Records that a slot of a bound may be free for jobs of this route."""
        for view in self._on_route.get((workflow_id, stage, provider), ()):
            view.open_all()

    def start(self, dispatch_id: int, lane: Lane, drawn_in: QueueView | None = None) -> None:
        if dispatch_id in self._held:
            return
        self.moment += 1
        self._held[dispatch_id] = lane, self.moment
        if self._ended is not None:
            self._ended.discard(dispatch_id)
        for view in self._on_route.get(lane.route, ()):
            if view is not drawn_in:
                view.start(lane)

    def end(self, dispatch_id: int) -> None:
        held = self._held.pop(dispatch_id, None)
        if held is None:
            return
        if self._ended is not None:
            self._ended.add(dispatch_id)
        for view in self._on_route.get(held[0].route, ()):
            view.end(held[0])

    def begin_reading(self) -> int:
        """Called before all dispatches in flight are read. Returns the moment."""
        self._ended = set()
        return self.moment

    def see(self, held: Mapping[int, Lane], moment: int) -> None:
        """Applies the dispatches of all control planes that were in flight at that moment. Later changes in this
        process are kept.
        """
        ended, self._ended = self._ended or set(), None
        for dispatch_id, (_, since) in tuple(self._held.items()):
            if since <= moment and dispatch_id not in held:
                self.end(dispatch_id)
        for dispatch_id, lane in held.items():
            if dispatch_id not in ended:
                self.start(dispatch_id, lane)

    def forget_lanes(self) -> None:
        """Forgets which lanes have work. A central that lost its last changes gives the ids of lanes out again."""
        for view in self._views.values():
            for lane in tuple(view.lanes()):
                view.leave(lane)
        self.mark_stale()

    def mark_stale(self) -> None:
        """Marks all views as outdated, because notifications may have been missed."""
        for view in self._views.values():
            view.is_stale = True
            view.open_all()

    def terms_changed(self) -> None:
        for view in self._views.values():
            view.terms_changed()


def _routes(criteria: Criteria) -> Iterable[Route]:
    return product(dict.fromkeys(criteria.workflow_ids), (criteria.stage,), dict.fromkeys(criteria.providers))
