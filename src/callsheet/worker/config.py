"""What an agent is told at its start. Made from the settings by the command; nothing here reads the environment."""

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
    # Token, reports, cache and work in progress; one agent at a time.
    directory: Path
    fleet: str | None = None
    # Where neither is given, the registration token says it.
    stage: str | None = None
    workflows: tuple[str, ...] = ()
    # At each engine.
    max_concurrency: int = 1
    # A graph that each engine runs before its first job.
    warm_up: Mapping[str, dict[str, Any]] | None = field(default=None, repr=False)
    heartbeat_seconds: float = 30.0
    # Between two heartbeats that only tell progress.
    progress_seconds: float = 1.0
    prefetch: bool = True
    # Hashes of model files, as sha256sum writes them.
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
