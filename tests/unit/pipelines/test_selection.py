"""The next job of a run, rule by rule, compared with a whole tree that the rules do not get."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as some

from callsheet.pipelines.run.selection import Choice, Draw, Idle, Mode, RunState, StepState, first_accepted, next_group
from callsheet.settings.pipelines import PipelineSettings
from callsheet.wire.pipelines.pipelines import Strategy

FINISH, BREADTH = Strategy.FINISH_FIRST, Strategy.BREADTH_FIRST


def state(
    *steps: StepState, strategy: Strategy = FINISH, target: int = 10, leaves: int = 0, bases: int = 0
) -> RunState:
    return RunState(strategy=strategy, target_leaves=target, leaves=leaves, bases=bases, steps=steps)


def step(position: int, eligible: bool = False, in_flight: int = 0, gated: bool = False) -> StepState:
    return StepState(position, has_eligible=eligible, in_flight=in_flight, is_gated=gated)


@dataclass
class Node:
    position: int
    children: int = 0
    failures: int = 0
    active: bool = True
    in_flight: int = 0


@dataclass
class Tree:
    """A run as a whole, for the test."""

    steps: int
    max_children: int
    target: int
    nodes: list[Node] = field(default_factory=list)
    bases_in_flight: int = 0

    def eligible(self, node: Node) -> bool:
        return (
            node.active
            and node.position < self.steps
            and node.children + node.in_flight < self.max_children
            and node.failures < PipelineSettings().strikes
        )

    def leaves(self) -> int:
        return sum(node.active and node.position == self.steps for node in self.nodes)

    def in_flight(self, position: int) -> int:
        if position == 1:
            return self.bases_in_flight
        return sum(node.in_flight for node in self.nodes if node.position == position - 1)

    def state(self, strategy: Strategy, gated: Sequence[int] = ()) -> RunState:
        return RunState(
            strategy=strategy,
            target_leaves=self.target,
            leaves=self.leaves(),
            bases=sum(node.active and node.position == 1 for node in self.nodes),
            steps=[
                step(
                    position,
                    any(self.eligible(node) for node in self.nodes if node.position == position),
                    self.in_flight(position),
                    position in gated,
                )
                for position in range(1, self.steps + 1)
            ],
        )


@some.composite
def trees(draw: some.DrawFn) -> Tree:
    steps = draw(some.integers(1, 5))
    node = some.builds(
        Node,
        position=some.integers(1, steps),
        children=some.integers(0, 3),
        failures=some.integers(0, 4),
        active=some.booleans(),
        in_flight=some.integers(0, 2),
    )
    tree = Tree(
        steps=steps,
        max_children=draw(some.integers(1, 4)),
        target=draw(some.integers(1, 6)),
        nodes=draw(some.lists(node, max_size=12)),
        bases_in_flight=draw(some.integers(0, 2)),
    )
    for each in tree.nodes:
        if each.position == steps:
            each.children = each.in_flight = 0
    return tree


@given(trees())
def test_children_come_from_the_highest_step_that_has_an_eligible_parent(tree: Tree) -> None:
    choice = next_group(tree.state(FINISH))
    eligible = [node.position for node in tree.nodes if tree.eligible(node)]
    if eligible:
        assert choice == Choice(Mode.CHILD_GENERATION, max(eligible))
    else:
        assert choice.mode is not Mode.CHILD_GENERATION


@given(trees())
def test_a_base_is_started_only_if_no_candidate_is_eligible_and_leaves_and_jobs_in_flight_are_below_the_target(
    tree: Tree,
) -> None:
    choice = next_group(tree.state(FINISH))
    everything = tree.leaves() + sum(tree.in_flight(position) for position in range(1, tree.steps + 1))
    wanted = not any(map(tree.eligible, tree.nodes)) and everything < tree.target
    assert (choice.mode is Mode.BASE_GENERATION) == wanted


@given(trees(), some.sampled_from(Strategy))
def test_a_run_without_work_gives_the_reason(tree: Tree, strategy: Strategy) -> None:
    choice = next_group(tree.state(strategy))
    assert (choice.mode is Mode.NO_WORK) == (choice.idle is not None)
    if choice.idle is Idle.DONE:
        assert not tree.state(strategy).in_flight


@given(trees(), some.sampled_from(Strategy))
def test_no_parent_is_chosen_from_the_last_step_or_before_an_approval(tree: Tree, strategy: Strategy) -> None:
    for gated in ([1], [2, 3], range(1, tree.steps + 1)):
        choice = next_group(tree.state(strategy, gated))
        if choice.mode is Mode.CHILD_GENERATION:
            assert choice.position < tree.steps
            assert choice.position not in gated


@given(trees())
def test_a_run_that_waits_for_an_approval_starts_no_new_base(tree: Tree) -> None:
    gated = range(1, tree.steps + 1)
    choice = next_group(tree.state(FINISH, gated))
    if any(map(tree.eligible, tree.nodes)):
        assert choice == Choice(Mode.NO_WORK, idle=Idle.APPROVAL_NEEDED)


@given(trees())
def test_breadth_first_goes_on_only_from_a_step_that_is_filled(tree: Tree) -> None:
    choice = next_group(tree.state(BREADTH))
    if choice.mode is Mode.CHILD_GENERATION:
        earlier = range(1, choice.position)
        assert not any(tree.in_flight(position) for position in (*earlier, choice.position))
        assert not any(tree.eligible(node) for node in tree.nodes if node.position in earlier)
        assert tree.state(BREADTH).bases >= tree.target


@given(trees(), some.booleans())
def test_breadth_first_makes_as_many_bases_as_leaves_are_wanted_and_more_if_too_few_leaves_result(
    tree: Tree, narrowed: bool
) -> None:
    run = tree.state(BREADTH)
    run = replace(run, steps=[replace(each, is_narrowed=narrowed) for each in run.steps])
    too_few_bases = run.bases + run.steps[0].in_flight < run.target_leaves
    exhausted = not any(step.has_eligible or step.in_flight for step in run.steps[:-1])
    too_few_leaves = exhausted and run.leaves + run.in_flight < run.target_leaves
    # Where only the best of a step go on, a new base need not be among them: it would be made for nothing.
    is_narrowed = narrowed and tree.steps > 1
    wanted = too_few_bases or (too_few_leaves and not is_narrowed)
    assert (next_group(run).mode is Mode.BASE_GENERATION) == wanted


def grown(strategy: Strategy, steps: int, max_children: int, target: int, at_once: int) -> Tree:
    """A run from its beginning to its end, with jobs that end in the order they were started."""
    tree = Tree(steps, max_children, target)
    under_way: list[Node | None] = []
    for _ in range(10_000):
        choice = next_group(tree.state(strategy))
        if len(under_way) < at_once and choice.mode is not Mode.NO_WORK:
            parent = None
            if choice.mode is Mode.CHILD_GENERATION:
                parent = next(n for n in tree.nodes if n.position == choice.position and tree.eligible(n))
                parent.in_flight += 1
            else:
                tree.bases_in_flight += 1
            under_way.append(parent)
            continue
        if not under_way:
            assert choice == Choice(Mode.NO_WORK, idle=Idle.DONE)
            return tree
        parent = under_way.pop(0)
        if parent is None:
            tree.bases_in_flight -= 1
            tree.nodes.append(Node(1))
        else:
            parent.in_flight -= 1
            parent.children += 1
            tree.nodes.append(Node(parent.position + 1))
    raise AssertionError("it never ends")


@pytest.mark.parametrize("at_once", [1, 2, 5])
@pytest.mark.parametrize("strategy", Strategy)
def test_a_run_ends_with_the_tree_that_was_asked_for_however_many_jobs_run_at_once(
    strategy: Strategy, at_once: int
) -> None:
    one_each = grown(strategy, steps=4, max_children=1, target=10, at_once=at_once)
    assert Counter(node.position for node in one_each.nodes) == {1: 10, 2: 10, 3: 10, 4: 10}
    assert max(node.children for node in one_each.nodes) == 1
    two_each = grown(strategy, steps=3, max_children=2, target=3, at_once=at_once)
    assert all(node.children == 2 for node in two_each.nodes if node.position < 3)


def test_a_job_in_flight_counts_for_its_parent_and_for_the_target() -> None:
    assert next_group(state(step(1, in_flight=1), target=1)) == Choice(Mode.NO_WORK, idle=Idle.WAITING)
    assert next_group(state(step(1), step(2, in_flight=1), leaves=9)) == Choice(Mode.NO_WORK, idle=Idle.WAITING)
    assert next_group(state(step(1), step(2), leaves=9)) == Choice(Mode.BASE_GENERATION)
    assert next_group(state(step(1), step(2), leaves=10)) == Choice(Mode.NO_WORK, idle=Idle.DONE)


def test_ten_thousand_draws_follow_the_elo_scores() -> None:
    among = [1000, 2000, 500, 0, 1500]
    drawn = Counter(Draw(7, number).parent(among) for number in range(10_000))
    # Chi-squared with three degrees of freedom: one in a thousand is above 16.3.
    expected = {0: 2000, 1: 4000, 2: 1000, 4: 3000}
    assert set(drawn) == set(expected)
    assert sum((drawn[number] - wanted) ** 2 / wanted for number, wanted in expected.items()) < 16.3


def test_candidates_without_points_all_have_the_same_chance() -> None:
    among = [0, 0, 0, 0]
    drawn = Counter(Draw(7, number).parent(among) for number in range(10_000))
    assert set(drawn) == {0, 1, 2, 3}
    assert sum((count - 2500) ** 2 / 2500 for count in drawn.values()) < 16.3


def called(draw: Draw, elos: dict[int, int], highest: int) -> int:
    """Draws a few numbers at a time until one belongs to a candidate."""
    while True:
        number = first_accepted(draw.samples(min(elos), max(elos), highest, 3), elos)
        if number is not None:
            return number


@pytest.mark.parametrize("highest", [2000, 2600])
def test_ten_thousand_draws_follow_the_elo_scores_for_any_highest_score_and_any_gaps(
    highest: int,
) -> None:
    among = {3: 1000, 4: 2000, 9: 500, 11: 0, 30: 1500}
    drawn = Counter(called(Draw(7, number), among, highest) for number in range(10_000))
    expected = {3: 2000, 4: 4000, 9: 1000, 30: 3000}
    assert set(drawn) == set(expected)
    assert sum((drawn[number] - wanted) ** 2 / wanted for number, wanted in expected.items()) < 16.3


def test_every_sample_is_accepted_if_no_candidate_has_points() -> None:
    among = {1: 0, 2: 0, 5: 0, 8: 0}
    drawn = Counter(called(Draw(7, number), among, 0) for number in range(10_000))
    assert set(drawn) == set(among)
    assert sum((count - 2500) ** 2 / 2500 for count in drawn.values()) < 16.3


@given(
    some.integers(0, 2**53 - 1),
    some.integers(1, 10**6),
    some.dictionaries(some.integers(1, 60), some.integers(1, 3000), min_size=1),
    some.sets(some.integers(1, 60)),
)
def test_the_samples_of_a_draw_do_not_depend_on_which_candidates_are_read(
    seed: int, number: int, elos: dict[int, int], left_out: set[int]
) -> None:
    """Only the numbers that were called need be read."""
    first, second = Draw(seed, number), Draw(seed, number)
    samples = first.samples(min(elos), max(elos), max(elos.values()), 64)
    assert samples == second.samples(min(elos), max(elos), max(elos.values()), 64)
    assert all(min(elos) <= call.number <= max(elos) and 0 <= call.points < max(elos.values()) for call in samples)
    numbers = {call.number for call in samples}
    read = {each: elo for each, elo in elos.items() if each in numbers or each not in left_out}
    assert first_accepted(samples, read) == first_accepted(samples, elos)
    assert first.seed() == second.seed()


@given(some.integers(0, 2**53 - 1), some.integers(1, 10**6), some.lists(some.integers(0, 3000), min_size=1))
def test_a_draw_is_repeatable_and_takes_no_candidate_without_points(seed: int, number: int, elos: list[int]) -> None:
    first, second = Draw(seed, number), Draw(seed, number)
    chosen = first.parent(elos)
    assert second.parent(elos) == chosen
    assert first.seed() == second.seed()
    assert elos[chosen] > 0 or not any(elos)


def test_draws_do_not_change_between_versions() -> None:
    draw = Draw(42, 7)
    assert (draw.parent(range(1, 101)), draw.seed()) == (99, 7016704079441923)
    samples = Draw(42, 7).samples(1, 100_000, 1300, 2)
    assert [(call.number, call.points) for call in samples] == [(98725, 1012), (60136, 848)]


def test_every_draw_has_a_seed_of_its_own() -> None:
    assert len({Draw(1, number).seed() for number in range(1000)} | {Draw(2, n).seed() for n in range(1000)}) == 2000
