"""Benchmarks report in one shape, and never run for a name that does not exist.

They are imported by the tests that need them: every process of the tests would carry the peers otherwise.
"""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.processes import ROOT
from bench.results import Result


@pytest.mark.thorough
def test_a_benchmark_writes_where_it_ran_and_what_it_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "results" / "latest.json"
    from bench.__main__ import main

    assert main(["--only", "storage.presign", "--seconds", "0.05", "--output", str(file)]) == 0
    report = json.loads(file.read_text())
    assert {"python", "postgres", "cpu_count", "platform"} <= report["machine"].keys()
    assert [result["name"] for result in report["results"]] == [
        f"storage.presign.{backend}.{method}" for backend in ("local", "s3") for method in ("get", "put")
    ]
    for result in report["results"]:
        assert result.keys() == {"name", "value", "unit", "peer", "ratio_to_peer"}
        assert result["value"] > 0
        assert result["ratio_to_peer"] == pytest.approx(result["value"] / result["peer"], rel=0.01)
    assert "storage.presign.s3.put" in capsys.readouterr().out


CORE = (
    "dispatch.core",
    "dispatch.batch",
    "jobs.full",
    "dispatch.growth",
    "dispatch.idle_workers",
    "dispatch.pickup",
    "dispatch.lanes",
    "dispatch.fairness",
)


@pytest.mark.thorough
def test_the_core_is_measured_on_one_server_and_loses_no_job(tmp_path: Path) -> None:
    file = tmp_path / "latest.json"
    chosen = [part for name in CORE for part in ("--only", name)]
    # In a process of its own: it sets up logs and an event loop for all of it.
    command = [sys.executable, "-m", "bench", "--short", *chosen, "--output", str(file)]
    # A benchmark ends with an error where a job is lost, done twice or given to the wrong poller.
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=1800)
    results = {result["name"]: result for result in json.loads(file.read_text())["results"]}
    assert all(any(found == name or found.startswith(f"{name}.") for found in results) for name in CORE)
    for name in ("dispatch.core", "dispatch.batch", "dispatch.batch.processor", "jobs.full", "jobs.full.processor"):
        assert {"value", "unit", "ceiling", "peer", "ratio_to_ceiling", "ratio_to_peer"} <= results[name].keys()
    for name in ("dispatch.growth", "dispatch.growth.at_the_end", "dispatch.growth.no_match", "dispatch.pickup"):
        assert {"value", "unit", "target", "ratio", "p50_ms"} <= results[name].keys()
    assert results["dispatch.idle_workers.waiting"]["value"] == 0
    assert results["dispatch.idle_workers.repoll"]["value"] <= 2
    assert 1 <= results["dispatch.idle_workers.arrival"]["value"] <= 3
    # Eight statements and seven commits, shared by those that arrive together; loops and notifications beside them.
    assert results["jobs.full.statements"]["value"] < 2
    assert results["jobs.full.commits"]["value"] < 2


@pytest.mark.thorough
def test_lists_are_measured_beside_a_page_by_key(tmp_path: Path) -> None:
    file = tmp_path / "latest.json"
    command = [sys.executable, "-m", "bench", "--short", "--only", "web.lists", "--output", str(file)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=600)
    results = {result["name"]: result for result in json.loads(file.read_text())["results"]}
    of_user = ("", ".far", ".search", ".nothing", ".filters", ".counts")
    kinds = (*of_user, ".all", ".all.failed", ".all.nothing", ".all.totals")
    assert results.keys() == {f"web.lists{kind}" for kind in kinds}
    assert all({"p50_ms", "p99_ms", "ratio_to_ceiling"} <= result.keys() for result in results.values())


@pytest.mark.thorough
def test_the_benchmark_measures_charts_and_the_cost_of_their_upkeep(tmp_path: Path) -> None:
    file = tmp_path / "latest.json"
    command = [sys.executable, "-m", "bench", "--short", "--only", "web.overview", "--output", str(file)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=600)
    results = {result["name"]: result for result in json.loads(file.read_text())["results"]}
    kinds = ("1h", "24h", "30d", "metrics", "alerts", "page", "cpu", "keeping")
    assert results.keys() == {f"web.overview.{kind}" for kind in kinds}
    with_target = [result for name, result in results.items() if not name.endswith(".cpu")]
    assert all({"value", "target", "ratio"} <= result.keys() for result in with_target)


@pytest.mark.thorough
def test_the_protocol_is_measured_and_fifty_workers_drain_a_queue(tmp_path: Path) -> None:
    file = tmp_path / "latest.json"
    command = [sys.executable, "-m", "bench", "--short", "--only", "http.protocol", "--output", str(file)]
    # It ends with an error where a job is lost or done twice, or a worker is idle while work waits.
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=1800)
    results = {result["name"]: result for result in json.loads(file.read_text())["results"]}
    parts = ("", ".disk", ".cpu", ".bare", ".bare_cpu", ".statements", ".drain")
    assert results.keys() == {f"http.protocol{part}" for part in parts}
    assert {"ceiling", "peer", "ratio_to_ceiling", "p99_ms"} <= results["http.protocol"].keys()
    # Eight for a worker that is alone, shared by those that arrive together.
    assert results["http.protocol.statements"]["value"] < 8


@pytest.mark.thorough
def test_the_agent_is_measured_as_a_process_beside_a_real_engine(tmp_path: Path) -> None:
    file = tmp_path / "latest.json"
    names = ("worker.overhead", "worker.engine_idle", "worker.memory")
    chosen = [part for name in names for part in ("--only", name)]
    command = [sys.executable, "-m", "bench", "--short", *chosen, "--output", str(file)]
    # It ends with an error where a job does not complete, or the engine is heard of another number of renders.
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=1800)
    results = {result["name"]: result for result in json.loads(file.read_text())["results"]}
    for name in names:
        assert {"value", "unit", "peer", "target", "ratio", "ratio_to_peer"} <= results[name].keys()
    parts = ("whole", "transfers", "submit", "pickup", "run")
    assert {f"worker.overhead.{part}" for part in parts} <= results.keys()
    assert {f"worker.memory.{part}" for part in ("start", "most", "large")} <= results.keys()
    assert "worker.engine_idle.quick_peer" in results


@pytest.mark.thorough
def test_several_engines_are_measured_beside_their_own_queues(tmp_path: Path) -> None:
    file = tmp_path / "latest.json"
    command = [sys.executable, "-m", "bench", "--short", "--only", "worker.engines", "--output", str(file)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=1800)
    results = {result["name"]: result for result in json.loads(file.read_text())["results"]}
    parts = {f"worker.engines.{number}{kind}" for number in (1, 2) for kind in ("", ".idle", ".idlest")}
    assert results.keys() == {"worker.engines", *parts}
    assert all("ratio_to_ceiling" in results[f"worker.engines.{number}"] for number in (1, 2))


@pytest.mark.thorough
def test_runs_of_pipelines_are_measured_in_every_shape_and_beside_a_real_engine(tmp_path: Path) -> None:
    file = tmp_path / "latest.json"
    names = ("pipelines.select", "pipelines.engine_idle")
    chosen = [part for name in names for part in ("--only", name)]
    command = [sys.executable, "-m", "bench", "--short", *chosen, "--output", str(file)]
    # The benchmark ends with an error if no candidate is chosen, a run stops, or the number of candidates differs.
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=600)
    results = {result["name"]: result for result in json.loads(file.read_text())["results"]}
    for shape in ("", ".wide", ".widest", ".best"):
        assert {"ceiling", "peer", "target", "p50_ms", "p99_ms"} <= results[f"pipelines.select{shape}"].keys()
    assert results["pipelines.select.idle_tick"]["value"] == 2
    # Room, claim, look, count of leaves where no candidate may have a child, leave.
    assert results["pipelines.select.look"]["value"] < 6
    assert {"peer", "target", "ratio_to_peer"} <= results["pipelines.engine_idle"].keys()
    assert {f"pipelines.engine_idle.{part}" for part in ("handed_in_turns", "one_at_a_time")} <= results.keys()


def test_an_unknown_benchmark_is_refused_with_the_list_of_benchmarks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from bench.__main__ import BENCHMARKS, main

    assert main(["--only", "http.you", "--output", str(tmp_path / "latest.json")]) == 2
    printed = capsys.readouterr().err
    assert "'http.you'" in printed
    assert all(name in printed for name in BENCHMARKS)
    assert not (tmp_path / "latest.json").exists()


def test_a_benchmark_needs_time_to_measure(capsys: pytest.CaptureFixture[str]) -> None:
    from bench.__main__ import main

    assert main(["--seconds", "0"]) == 2
    assert "--seconds is 0" in capsys.readouterr().err


def test_every_benchmark_can_be_run_by_its_name() -> None:
    from bench.__main__ import BENCHMARKS

    for name, module in BENCHMARKS.items():
        assert module.name == name
        assert inspect.iscoroutinefunction(module.run)


def test_every_benchmark_is_described() -> None:
    from bench.__main__ import BENCHMARKS

    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert [name for name in BENCHMARKS if f"| `{name}` |" not in page] == []


def test_values_that_were_not_measured_are_left_out() -> None:
    assert Result(name="a", value=3.0, unit="s").as_json() == {"name": "a", "value": 3.0, "unit": "s"}
    compared = Result(name="a", value=3.0, unit="s", ceiling=6.0, peer=1.5, target=4.0).as_json()
    assert (compared["ratio_to_ceiling"], compared["ratio_to_peer"], compared["ratio"]) == (0.5, 2.0, 0.75)


@pytest.mark.thorough
def test_a_run_is_measured_in_a_browser(tmp_path: Path) -> None:
    file = tmp_path / "latest.json"
    command = [sys.executable, "-m", "bench", "--short", "--only", "web.runs", "--output", str(file)]
    # The benchmark ends with an error if the tree shows no thumbnails.
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=1800)
    results = {result["name"]: result for result in json.loads(file.read_text())["results"]}
    parts = ("demo", "vote", "tree.all", "tree.thumbnails", "tree.zoom")
    assert results.keys() == {f"web.runs.{part}" for part in parts}
    assert all(result["value"] > 0 and result["target"] > 0 for result in results.values())


@pytest.mark.thorough
def test_the_memory_of_tabs_is_measured_on_a_busy_installation(tmp_path: Path) -> None:
    file = tmp_path / "latest.json"
    command = [sys.executable, "-m", "bench", "--short", "--only", "web.tab_memory", "--output", str(file)]
    # The benchmark ends with an error if a worker cannot take or deliver jobs.
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=1800)
    results = {result["name"]: result for result in json.loads(file.read_text())["results"]}
    parts = {f"{tab}{kind}" for tab in ("overview", "jobs", "run") for kind in ("", ".heap", ".nodes", ".listeners")}
    assert results.keys() == {f"web.tab_memory.{part}" for part in parts}
    assert all(result["value"] > 0 for result in results.values())
    assert {"target", "ratio"} <= results["web.tab_memory.overview"].keys()


@pytest.mark.thorough
def test_slow_clients_are_measured_beside_a_user_and_workers(tmp_path: Path) -> None:
    file = tmp_path / "latest.json"
    command = [sys.executable, "-m", "bench", "--short", "--only", "http.slow_clients", "--output", str(file)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=600)
    results = {result["name"]: result for result in json.loads(file.read_text())["results"]}
    assert results.keys() == {f"http.slow_clients.{part}" for part in ("user", "workers", "memory")}
    assert all({"value", "target"} <= result.keys() for result in results.values())


@pytest.mark.thorough
def test_the_memory_of_a_control_plane_is_measured_over_mixed_requests(tmp_path: Path) -> None:
    file = tmp_path / "latest.json"
    command = [sys.executable, "-m", "bench", "--short", "--only", "http.memory", "--output", str(file)]
    # The benchmark ends with an error if a request gets a 5xx.
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=600)
    [result] = json.loads(file.read_text())["results"]
    assert result["name"] == "http.memory"
    assert {"value", "peer", "target", "ratio_to_peer"} <= result.keys()
