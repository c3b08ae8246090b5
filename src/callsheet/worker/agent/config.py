"""Configuration of an agent. The command creates it from the settings; nothing here reads the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class AgentConfig:
    api_url: str
    worker_id: str
    secret: str = field(repr=False)
    # This directory contains the token, reports, cache and work in progress. One agent at a time uses it.
    directory: Path
    fleet: str | None = None
    # Default of fleet and stage: those of the registration token.
    stage: str | None = None
    workflows: tuple[str, ...] = ()
    # Number of concurrent jobs per engine.
    max_concurrency: int = 1
    # A graph that each engine runs before its first job.
    warm_up: Mapping[str, dict[str, Any]] | None = field(default=None, repr=False)
    # Maximum time of a run. Default: only the limit of the job's workflow.
    run_limit_seconds: float | None = None
    heartbeat_seconds: float = 30.0
    # Minimum time between two heartbeats that only report progress.
    progress_seconds: float = 1.0
    prefetch: bool = True
    # A file with hashes of model files, in the format of sha256sum.
    model_hashes: Path | None = None
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    capacity_type: Literal["spot", "on-demand"] | None = None
    instance_type: str | None = None
    cache_bytes: int = 10_737_418_240
    stop_seconds: float = 20.0
    leaves_when_drained: bool = False
    wait_seconds: float = 55.0
    probe_seconds: float = 10.0
    metadata_url: str | None = None
    metadata_seconds: float = 5.0
    asg_name: str | None = None
    asg_region: str | None = None
    asg_endpoint_url: str | None = None
    asg_lifecycle_hook: str | None = None
