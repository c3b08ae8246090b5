"""Runs of pipelines: how many jobs they have under way, and how often they are looked at."""

from __future__ import annotations

from pydantic import Field

from callsheet.toolbox.sections import Section


class PipelineSettings(Section):
    jobs_per_run: int = Field(1, ge=1, le=1000, description="Most jobs of one run that may be under way.")
    jobs_in_total: int = Field(
        16,
        ge=1,
        le=100_000,
        description="Most jobs of all runs of one tenant together that may be under way. A run that waits for it has "
        "the reason `tenant_at_limit`.",
    )
    jobs_per_user: int = Field(100, ge=1, le=100_000, description="Most active jobs of all runs of one user together.")
    runs_per_user: int = Field(
        100, ge=1, le=1_000_000, description="Most runs of one user that may be active; each is looked at by the loop."
    )
    submit_seconds: float = Field(
        10.0,
        gt=0,
        le=3600,
        description="How often runs are looked at for the next job, in seconds; at once when a job of theirs ends. "
        "Also: COMFYUI_SUBMIT_INTERVAL.",
    )
    poll_seconds: float = Field(
        5.0,
        gt=0,
        le=3600,
        description="How often ended jobs are looked for, in seconds; at once where this process hears of one.",
    )
    blocked_seconds: float = Field(
        30.0,
        gt=0,
        le=86_400,
        description="How long a run that cannot go on is left alone before it is looked at again, in seconds.",
    )
    strikes: int = Field(
        3,
        ge=1,
        le=1000,
        description="After how many failures a run gives up: of jobs made from one candidate, of jobs of the first "
        "step in a row, and of branches without a child. Counts for runs that begin from then on.",
    )
    error_window_seconds: int = Field(
        3600, ge=60, le=604_800, description="How far back failures of runs' jobs are counted for an alert, in seconds."
    )
    error_share_alert: float = Field(
        0.3, gt=0, lt=1, description="Admins are alerted when more than this share of runs' jobs failed, from 0 to 1."
    )
