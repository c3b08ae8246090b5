"""What a user sees of a job's history: the kind of the actor, never an operator's id or a worker's name."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import pytest

from callsheet.fleet.protocol.reports import without_graphs
from callsheet.jobs.machine.rows import EventRow
from callsheet.jobs.show.views import event_view


def row(actor: str, reason: str | None = None) -> EventRow:
    return EventRow(
        job_id=uuid4(),
        seq=1,
        user_seq=1,
        event="job.transition",
        from_status="processing",
        to_status="queued",
        actor=actor,
        reason=reason,
        data=None,
        at=datetime.now(UTC),
    )


@pytest.mark.parametrize(
    ("actor", "shown"),
    [
        ("worker:gpu-1.internal", "worker"),
        ("worker:i-0abc:2", "worker"),
        ("admin:01900000-0000-7000-8000-000000000000", "admin"),
        ("user:01900000-0000-7000-8000-000000000000", "user:01900000-0000-7000-8000-000000000000"),
        ("run:01900000-0000-7000-8000-000000000000", "run:01900000-0000-7000-8000-000000000000"),
        ("relay", "relay"),
        ("worker", "worker"),
    ],
)
def test_events_do_not_show_names_of_operators_and_workers(actor: str, shown: str) -> None:
    assert event_view(row(actor)).actor == shown


def test_the_name_of_a_worker_is_removed_from_its_own_reasons() -> None:
    event = event_view(row("worker:gpu-1", "gpu-1 is shutting down, unlike gpu-11 and my-gpu-1"))
    assert event.reason == "the worker is shutting down, unlike gpu-11 and my-gpu-1"


def test_the_graph_of_a_file_is_removed_from_its_metadata() -> None:
    graph = {"1": {"class_type": "KSampler", "inputs": {"text": "hidden"}}}
    given = {"engine": "0.3", "prompt": graph, "Workflow": '{"nodes": []}', "extra_pnginfo": [graph], "seed": 4}
    assert without_graphs(given) == {"engine": "0.3", "seed": 4}
    assert without_graphs({"prompt": "a cat", "workflow": None}) == {"prompt": "a cat", "workflow": None}
