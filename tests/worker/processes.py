"""`callsheet worker` as a machine image starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.run.left_over_programs import tied
from tests.worker.harness import AgentHarness


@contextmanager
def worker_process(
    agent_harness: AgentHarness, directory: Path, worker_id: str, **variables: str
) -> Iterator[subprocess.Popen[str]]:
    """`callsheet worker`, configured by the names that machine images use."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("CALLSHEET_", "AWS_", "COVERAGE"))
    }
    environment |= {
        "API_BASE_URL": agent_harness.worker_harness.plane.settings.public_url,
        "FLEET_SECRET": agent_harness.worker_harness.secret,
        "WORKER_ID": worker_id,
        "COMFYUI_BASE_URL": agent_harness.engine.url,
        "MAX_CONCURRENCY": "1",
        "HEARTBEAT_INTERVAL_SECONDS": "1",
        "CAPABILITIES": '{"gpu": "none"}',
        "CALLSHEET_WORKER__WORKFLOWS": agent_harness.worker_harness.jobs_api.workflow,
        "CALLSHEET_WORKER__STOP_SECONDS": "0",
        "CALLSHEET_WORKER__METADATA_URL": "http://127.0.0.1:9",
        **variables,
    }
    with (directory / f"{worker_id}.log").open("a") as log:
        process = subprocess.Popen(
            tied(sys.executable, "-m", "callsheet", "worker"),
            cwd=directory,
            env=environment,
            stdout=log,
            stderr=log,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()
