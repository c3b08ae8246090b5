"""Runs of pipelines: how many jobs they have in flight, and how often the scheduler examines them."""

from __future__ import annotations

from pydantic import Field

from callsheet.toolbox.sections import Section


class PipelineSettings(Section):
    jobs_per_run: int = Field(1, ge=1, le=1000, description="Largest number of active jobs of one run.")
    jobs_in_total: int = Field(
        16,
        ge=1,
        le=100_000,
        description="Largest number of active jobs of all runs of one tenant together. A run that waits because of "
        "this limit has the reason `tenant_at_limit`.",
    )
    jobs_per_user: int = Field(
        100, ge=1, le=100_000, description="Largest number of active jobs of all runs of one user together."
    )
    runs_per_user: int = Field(100, ge=1, le=1_000_000, description="Largest number of active runs of one user.")
    submit_seconds: float = Field(
        10.0,
        gt=0,
        le=3600,
        description="How often the scheduler looks for the next job of each run, in seconds. It also looks at once "
        "when a job of the run ends. Also: COMFYUI_SUBMIT_INTERVAL.",
    )
    poll_seconds: float = Field(
        5.0,
        gt=0,
        le=3600,
        description="How often the collector looks for ended jobs, in seconds. It also looks at once when this "
        "process is notified of one.",
    )
    blocked_seconds: float = Field(
        30.0,
        gt=0,
        le=86_400,
        description="How long a blocked run waits before the scheduler examines it again, in seconds.",
    )
    strikes: int = Field(
        3,
        ge=1,
        le=1000,
        description="Number of failures after which a run stops: of jobs from one candidate, of jobs of the first "
        "step in a row, and of branches without a child. It applies to runs that start after the change.",
    )
    retention_days: int | None = Field(
        None,
        ge=1,
        le=36_500,
        description="How long runs are kept after they ended (completed or canceled), in days. Then they are deleted "
        "with their candidates and files, as if their users had deleted them. Default: forever.",
    )
    error_window_seconds: int = Field(
        3600, ge=60, le=604_800, description="Period in which failed jobs of runs are counted for an alert, in seconds."
    )
    error_share_alert: float = Field(
        0.3, gt=0, lt=1, description="Share of failed jobs of runs, from 0 to 1, above which admins get an alert."
    )
