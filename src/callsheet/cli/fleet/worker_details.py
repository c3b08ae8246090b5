"""`callsheet workers show`: everything that is known about a worker."""

from __future__ import annotations

import json
from collections.abc import Iterator

from callsheet.cli.fleet.fleet import AS_JSON, WORKER, state_of, with_room
from callsheet.cli.shared.console import moment, out, print_json, print_table
from callsheet.toolbox.disk_space import gibibytes
from callsheet.wire.fleet import WorkerDetails


def show_worker(worker_id: str = WORKER, as_json: bool = AS_JSON) -> None:
    """Show a worker: its state, its disk, what it reports about itself, and the workflows that it cannot run."""
    worker = with_room(lambda room: room.workers.get(worker_id))
    if as_json:
        print_json(worker)
        return
    print_table(("fact", "value"), [*_facts(worker), *_reported(worker)])
    for each in worker.cannot_run:
        lacks = ", ".join(f"{lack.kind} {lack.name}" for lack in each.lacks)
        out.print(f"It cannot run {each.workflow}. It lacks: {lacks}.")


def _facts(worker: WorkerDetails) -> Iterator[tuple[str, object]]:
    yield "worker", worker.worker_id
    yield "state", state_of(worker)
    yield "fleet", f"{worker.fleet_slug or 'none'}, {worker.stage}"
    yield "jobs", f"{worker.current_load}/{worker.max_concurrency}"
    yield "providers", ", ".join(worker.providers)
    yield "workflows", ", ".join(worker.workflows)
    yield "machine", ", ".join(filter(None, (worker.instance_type, worker.capacity_type)))
    yield "last seen", moment(worker.last_seen_at)
    disk = worker.disk
    if disk is not None:
        free = f"{gibibytes(disk.free_bytes)} of {gibibytes(disk.size_bytes)} free"
        yield "disk", f"{free} ({moment(disk.reported_at)})"


def _reported(worker: WorkerDetails) -> Iterator[tuple[str, object]]:
    """The capabilities, as the worker named them."""
    for name, value in sorted(worker.capabilities.items()):
        yield name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
