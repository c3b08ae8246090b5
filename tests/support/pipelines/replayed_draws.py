"""Repeats the draws of a run from the candidates and votes that existed at each draw.

With one job at a time, the n-th draw sees the results of the jobs before it and the votes until then. Only the votes at
the moment of the draw are uncertain. One of the few possible sets of votes must lead to the same draw.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from callsheet.pipelines.run.selection import Draw, Mode, RunState, StepState, next_group
from callsheet.settings.pipelines import PipelineSettings
from callsheet.wire.pipelines.pipelines import Strategy
from tests.support.pipelines.tree_invariants import Tree

Row = Mapping[str, Any]


def strange_draws(tree: Tree, *, while_it_drew: bool = True) -> Iterator[str]:
    """Draws that no possible set of votes explains. The votes were given one after the other, and none was taken back.

    `while_it_drew`: whether votes were given while the run was active. Otherwise each draw has one set of votes.
    """
    votes = sorted(tree.votes, key=lambda vote: vote["created_at"])
    for place, slot in enumerate(tree.slots):
        earlier = tree.slots[:place]
        if earlier and earlier[-1]["settled_at"] > slot["created_at"]:
            yield f"draw {slot['draw']} was drawn while another job was under way"
            continue
        since = earlier[-1]["settled_at"] if earlier else tree.run["created_at"]
        # The last vote before the draw may not have been committed yet; the votes before it were.
        minimum = max(0, sum(vote["created_at"] < since for vote in votes) - 1)
        maximum = sum(vote["created_at"] < slot["created_at"] for vote in votes)
        if not while_it_drew:
            minimum = maximum
        snapshots = [Snapshot(tree, earlier, votes[:count]) for count in range(minimum, maximum + 1)]
        if not any(seen.leads_to(slot, chosen) for place, seen in enumerate(snapshots) for chosen in snapshots[place:]):
            yield f"draw {slot['draw']} does not follow from votes {minimum} to {maximum}"


class Snapshot:
    """A run after some of its jobs and some of its votes."""

    def __init__(self, tree: Tree, settled: Sequence[Row], votes: Sequence[Row]):
        self._tree = tree
        jobs = {slot["job_id"] for slot in settled}
        self._there = [each for each in tree.candidates if each["job_id"] in jobs]
        self._children = Counter(each["parent_id"] for each in self._there)
        self._started = {slot["parent_id"] for slot in settled}
        self._failures = Counter(slot["parent_id"] for slot in settled if slot["status"] == "failed")
        self._elo: dict[UUID, int] = {each["id"]: 1000 for each in self._there}
        for vote in votes:
            self._elo[vote["winner_id"]] += vote["elo_change"]
            self._elo[vote["loser_id"]] -= vote["elo_change"]

    def leads_to(self, slot: Row, later: Snapshot) -> bool:
        """Whether the step results from this snapshot, and the parent from a later one."""
        choice = next_group(self._state())
        draw = Draw(self._tree.run["seed"], slot["draw"])
        if choice.mode is Mode.BASE_GENERATION:
            return slot["parent_id"] is None and slot["seed"] == draw.seed()
        if choice.mode is Mode.NO_WORK or slot["position"] != choice.position + 1:
            return False
        parents = later._eligible(choice.position)
        if not parents:
            return False
        chosen = parents[draw.parent([later._elo[each["id"]] for each in parents])]
        return bool(chosen["id"] == slot["parent_id"] and draw.seed() == slot["seed"])

    def _state(self) -> RunState:
        run = self._tree.run
        positions = range(1, run["steps"] + 1)
        return RunState(
            strategy=Strategy(run["strategy"]),
            target_leaves=run["target_leaves"],
            leaves=len(self._of(run["steps"])),
            bases=len(self._of(1)),
            steps=[
                StepState(
                    position,
                    has_eligible=bool(self._eligible(position)),
                    is_narrowed=self._top_k(position) is not None,
                )
                for position in positions
            ],
        )

    def _of(self, position: int) -> list[Row]:
        return [each for each in self._there if each["position"] == position]

    def _top_k(self, position: int) -> int | None:
        is_breadth_first = self._tree.run["strategy"] == Strategy.BREADTH_FIRST
        return self._tree.steps[position]["top_k"] if is_breadth_first else None

    def _eligible(self, position: int) -> list[Row]:
        found, top_k = self._of(position), self._top_k(position)
        if top_k is not None:
            # A candidate that was started keeps its place, unless it failed without a child; votes decide about the
            # others.
            started = [
                each for each in found if each["id"] in self._started and (self._lives(each) or self._has_child(each))
            ]
            fresh = [each for each in found if each["id"] not in self._started]
            best = sorted(fresh, key=lambda each: (-self._elo[each["id"]], each["number"]))
            found = started + best[: max(0, top_k - len(started))]
        able = [each for each in found if self._children[each["id"]] < each["max_children"] and self._lives(each)]
        return sorted(able, key=lambda each: int(each["number"]))

    def _lives(self, candidate: Row) -> bool:
        return self._failures[candidate["id"]] < PipelineSettings().strikes

    def _has_child(self, candidate: Row) -> bool:
        return self._children[candidate["id"]] > 0
