"""What an agent reports of its engines."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest
from structlog.testing import capture_logs

from callsheet.providers.engine import Engine, EngineUnreachable, Inventory
from callsheet.wire.worker.environment import MAX_MODELS, CannotRun, Environment, EnvironmentResponse, Lack
from callsheet.worker.agent.control_plane import ControlPlaneClient
from callsheet.worker.agent.plane import RefusedRequest, Unreachable
from callsheet.worker.engines import environment
from callsheet.worker.engines.environment import EnvironmentWatch, environment_of, parse_hashes, versions_of
from tests.support.waiting import until

ONE, OTHER = "ab" * 32, "cd" * 32


def inventory(classes: str, models: str = "", version: str = "0.7.0") -> Inventory:
    return Inventory(frozenset(classes.split()), frozenset(models.split()), (version,))


def test_engines_of_one_provider_have_what_all_of_them_have() -> None:
    found = environment_of(
        [("self_hosted", inventory("A B", "m.pt n.pt")), ("self_hosted", inventory("B C", "n.pt", "0.8.0"))], {}
    )
    assert found is not None
    assert (found.node_classes, [model.name for model in found.models or []]) == (["B"], ["n.pt"])
    assert found.engine_versions == ["0.7.0", "0.8.0"]


def test_providers_have_what_any_of_them_has() -> None:
    found = environment_of([("self_hosted", inventory("A")), ("lightbox", inventory("B"))], {})
    assert found is not None
    assert found.node_classes == ["A", "B"]


def test_a_worker_reports_no_environment_if_an_engine_reports_none() -> None:
    assert environment_of([("self_hosted", inventory("A")), ("cloud", None)], {}) is None
    assert environment_of([], {}) is None


def test_a_list_that_is_too_long_is_omitted_completely() -> None:
    models = frozenset(f"{number}.pt" for number in range(MAX_MODELS + 1))
    found = environment_of([("self_hosted", Inventory(frozenset({"A"}), models))], {})
    assert found is not None
    assert (found.node_classes, found.models) == (["A"], None)
    classes = frozenset(f"{number:0250}" for number in range(5000))
    found = environment_of([("self_hosted", Inventory(classes, frozenset({"m.pt"})))], {})
    assert found is not None
    assert (found.node_classes, found.models) == (None, None)


def test_hashes_come_from_a_file_of_sha256sum() -> None:
    text = f"{ONE}  ./checkpoints/sd/a.ckpt\n{OTHER} *loras/b.pt\nnonsense\n{ONE}  x/c.pt\n{OTHER}  y/c.pt\n"
    hashes = parse_hashes(text)
    assert (hashes["sd/a.ckpt"], hashes["a.ckpt"], hashes["b.pt"]) == (ONE, ONE, OTHER)
    assert (hashes["c.pt"], hashes["x/c.pt"]) == (None, ONE)
    found = environment_of([("self_hosted", inventory("A", "sd\\a.ckpt b.pt d.pt"))], hashes)
    assert found is not None
    assert {model.name: model.sha256 for model in found.models or []} == {
        "b.pt": OTHER,
        "d.pt": None,
        "sd\\a.ckpt": ONE,
    }


class FakeEngine:
    provider = "self_hosted"

    def __init__(self) -> None:
        self.has: Inventory | None = inventory("A", "m.pt")
        self.readings = 0

    async def inventory(self) -> Inventory:
        self.readings += 1
        if self.has is None:
            raise EngineUnreachable("The engine is away.")
        return self.has


class FakePlane:
    is_registered = True

    def pause(self, failures: int, error: Exception | None = None) -> float:
        return 0.0

    def __init__(self) -> None:
        self.reports: list[Environment] = []
        self.error: Exception | None = None

    async def report_environment(self, environment: Environment) -> EnvironmentResponse:
        if self.error is not None:
            raise self.error
        self.reports.append(environment)
        return EnvironmentResponse(cannot_run=[])


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def plane() -> FakePlane:
    return FakePlane()


async def read_and_report(watch: EnvironmentWatch, plane: FakePlane) -> None:
    await watch.read()
    await watch.report(cast("ControlPlaneClient", plane))


async def test_only_a_changed_environment_is_reported(engine: FakeEngine, plane: FakePlane) -> None:
    watch = EnvironmentWatch(lambda: [cast("Engine", engine)])
    await read_and_report(watch, plane)
    await read_and_report(watch, plane)
    assert len(plane.reports) == 1
    engine.has = inventory("A B", "m.pt")
    await read_and_report(watch, plane)
    assert [report.node_classes for report in plane.reports] == [["A"], ["A", "B"]]


async def test_the_known_environment_stays_while_an_engine_is_unavailable(engine: FakeEngine, plane: FakePlane) -> None:
    watch = EnvironmentWatch(lambda: [cast("Engine", engine)])
    await watch.read()
    engine.has = None
    await read_and_report(watch, plane)
    assert [report.node_classes for report in plane.reports] == [["A"]]


async def test_only_a_report_that_did_not_arrive_is_repeated(engine: FakeEngine, plane: FakePlane) -> None:
    watch = EnvironmentWatch(lambda: [cast("Engine", engine)])
    plane.error = Unreachable("away")
    await read_and_report(watch, plane)
    plane.error = None
    await read_and_report(watch, plane)
    assert len(plane.reports) == 1
    engine.has = inventory("B")
    plane.error = RefusedRequest(404, "not_found", "Not found.")
    await read_and_report(watch, plane)
    plane.error = None
    await read_and_report(watch, plane)
    assert len(plane.reports) == 1


async def test_a_report_is_repeated_without_reading_the_engine_again(
    engine: FakeEngine, plane: FakePlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "RETRY_SECONDS", 0.0)
    watch = EnvironmentWatch(lambda: [cast("Engine", engine)])
    attempts: list[Environment] = []

    async def report(reported: Environment) -> EnvironmentResponse:
        attempts.append(reported)
        if len(attempts) < 3:
            raise Unreachable("away")
        plane.reports.append(reported)
        reported_at_last.set()
        return EnvironmentResponse(cannot_run=[])

    reported_at_last = asyncio.Event()
    monkeypatch.setattr(plane, "report_environment", report)
    watch.request_reading()
    watching = asyncio.create_task(watch.read_and_report(cast("ControlPlaneClient", plane)))
    await reported_at_last.wait()
    watching.cancel()
    assert (len(attempts), len(plane.reports), engine.readings) == (3, 1, 1)


async def test_a_refusal_is_followed_by_a_reading_and_a_report_but_many_refusals_by_one_reading(
    engine: FakeEngine, plane: FakePlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = EnvironmentWatch(lambda: [cast("Engine", engine)])
    await watch.report(cast("ControlPlaneClient", plane))
    failures = [Unreachable("one report per second", 1.0)]

    async def report(reported: Environment) -> EnvironmentResponse:
        if failures:
            raise failures.pop()
        plane.reports.append(reported)
        return EnvironmentResponse(cannot_run=[])

    monkeypatch.setattr(plane, "report_environment", report)
    engine.has = inventory("A")
    await asyncio.gather(*(watch.renew(cast("ControlPlaneClient", plane)) for _ in range(3)))
    assert (engine.readings, [each.models for each in plane.reports]) == (1, [[]])


async def test_after_a_refusal_the_next_regular_reading_is_reported_even_if_nothing_changed(
    engine: FakeEngine, plane: FakePlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = EnvironmentWatch(lambda: [cast("Engine", engine)])
    await watch.renew(cast("ControlPlaneClient", plane))
    watch.request_reading()
    watching = asyncio.create_task(watch.read_and_report(cast("ControlPlaneClient", plane)))
    await until(lambda: len(plane.reports) == 2)
    watching.cancel()
    assert plane.reports[0] == plane.reports[1]


async def test_workflows_that_cannot_run_are_logged_again_only_when_the_assignments_change(
    engine: FakeEngine, plane: FakePlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "READING_SECONDS", 0.0)
    watch = EnvironmentWatch(lambda: [cast("Engine", engine)])
    lack = Lack(kind="model", name="m.pt")
    assigned = [["one"], ["one"], ["one", "two"], ["one", "two"]]

    async def report(reported: Environment) -> EnvironmentResponse:
        plane.reports.append(reported)
        slugs = assigned[min(len(plane.reports), len(assigned)) - 1]
        return EnvironmentResponse(cannot_run=[CannotRun(workflow=slug, lacks=[lack]) for slug in slugs])

    monkeypatch.setattr(plane, "report_environment", report)
    with capture_logs() as logs:
        watching = asyncio.create_task(watch.read_and_report(cast("ControlPlaneClient", plane)))
        await until(lambda: len(plane.reports) >= 5)
        watching.cancel()
    assert [line["workflow"] for line in logs if line["event"] == "worker.cannot_run"] == ["one", "one", "two"]


async def test_a_file_of_hashes_is_read_each_time_and_may_be_missing(
    engine: FakeEngine, plane: FakePlane, tmp_path: Path
) -> None:
    file = tmp_path / "hashes"
    watch = EnvironmentWatch(lambda: [cast("Engine", engine)], file)
    await read_and_report(watch, plane)
    file.write_text(f"{ONE}  m.pt\n")
    await read_and_report(watch, plane)
    assert [report.models[0].sha256 for report in plane.reports if report.models] == [None, ONE]


def test_versions_of_custom_nodes_are_those_of_all_engines() -> None:
    one = Inventory(frozenset(), frozenset(), custom_node_versions={"pack": "1.1", "other": "2"})
    another = Inventory(frozenset(), frozenset(), custom_node_versions={"pack": "1.0"})
    assert versions_of([one, another, one]) == {"pack": "1.0, 1.1", "other": "2"}
