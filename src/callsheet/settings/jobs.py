"""Settings of jobs, of calls of providers, and of public links."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from callsheet.toolbox.sections import Section


class JobSettings(Section):
    active_per_user: int = Field(
        5,
        ge=1,
        le=100_000,
        description="Largest number of active effect jobs of one user. Tasks, typed jobs, runs and batches "
        "have their own limits: `tasks.active_per_user`, `tasks.typed_active_per_user`, `pipelines.jobs_per_user`, "
        "`jobs.batch_jobs_per_user`.",
    )
    batch_jobs_per_user: int = Field(
        2000,
        ge=1,
        le=100_000,
        description="Largest number of active jobs of all batches of one user. They do not count as other active jobs.",
    )
    batches_per_minute: int | None = Field(
        30,
        ge=1,
        le=1_000_000,
        description="Largest number of batches that one user may submit in a minute. One more gets 429 with "
        "Retry-After. Null: no limit.",
    )
    submits_per_minute: int | None = Field(
        600,
        ge=1,
        le=1_000_000,
        description="Largest number of jobs and tasks that one user may submit in a minute. One more gets 429 with "
        "Retry-After. Jobs that runs start by themselves and jobs of batches do not count. Null: no limit.",
    )
    order: Literal["fair", "first_in_first_out"] = Field(
        "fair",
        description="Which job is next within a priority. `fair`: a job of the tenant with the fewest running jobs "
        "relative to its weight, then of the tenant that was served least recently. The same rule "
        "applies between the users of a tenant. `first_in_first_out`: the oldest job.",
    )
    running_per_tenant: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="Largest number of jobs of one tenant that run at once. A tenant may have its own limit. "
        "Default: no limit.",
    )
    running_per_user: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="Largest number of jobs of one user that run at once. A tenant may have its own limit. Default: "
        "no limit.",
    )
    warm_look_ahead: int = Field(
        8,
        ge=0,
        le=100,
        description="Number of equally due jobs among which the queue looks for a job whose models the worker has "
        "loaded. 0 turns warm models off. Only with the order `fair`.",
    )
    warm_max_passed: int = Field(
        4,
        ge=1,
        le=1000,
        description="How often in a row a job may be passed over for jobs whose models are loaded.",
    )
    lease_seconds: int = Field(
        900,
        ge=15,
        le=86_400,
        description="Lease time, in seconds. If a worker sends no heartbeat for this time, another worker gets the "
        "job. A workflow may have its own lease time. Workers send three heartbeats within it.",
    )
    max_attempts: int = Field(
        3, ge=1, le=100, description="Number of attempts before a job fails. A workflow may have its own number."
    )
    free_requeues: int = Field(
        20,
        ge=0,
        le=10_000,
        description="Number of requeues because of an interrupted worker that do not count as attempts. Later ones "
        "count.",
    )
    lifetime_seconds: int = Field(
        86_400, ge=1, le=31_536_000, description="Longest time from submit to the end of a job, in seconds."
    )
    history_days: int | None = Field(
        90,
        ge=7,
        le=36_500,
        description="How long finished dispatches are kept in the history of the queue, in days. Null: forever. Keep "
        "them longer than the oldest backup that you would restore.",
    )
    event_days: int | None = Field(
        365,
        ge=1,
        le=36_500,
        description="How long the events of a job are kept after it ended, in days. Null: forever. The job, its last "
        "event and its retries stay.",
    )
    streams_per_user: int = Field(
        100, ge=1, le=100_000, description="Largest number of open live streams of one user per control plane."
    )
    stream_token_seconds: int = Field(
        300,
        ge=10,
        le=86_400,
        description="How long a stream token can open streams, in seconds. A stream that is already open continues "
        "after that.",
    )
    queue_wait_alert_seconds: int = Field(
        900, ge=1, le=31_536_000, description="Waiting time of a job after which admins get an alert, in seconds."
    )
    error_share_alert: float = Field(
        0.5,
        gt=0,
        lt=1,
        description="Share of failed jobs of a workflow or of a provider in the last hour, from 0 to 1, above which "
        "admins get an alert. For runs of pipelines, see pipelines.error_share_alert.",
    )
    error_jobs_alert: int = Field(
        10,
        ge=1,
        le=50_000,
        description="Number of finished jobs from which a share of failed jobs raises an alert: of a workflow, of a "
        "provider, or of runs of pipelines.",
    )


class WebhookSettings(Section):
    """Providers that call back."""

    first_poll_seconds: float = Field(
        60.0,
        gt=0,
        le=3600,
        description="How long to wait for a callback before the provider is polled, in seconds. The time doubles "
        "with each poll.",
    )
    max_poll_seconds: float = Field(300.0, gt=0, le=86_400, description="Longest time between two polls, in seconds.")
    fetch_seconds: float = Field(
        300.0, gt=0, le=3600, description="Timeout for fetching one file of a provider, in seconds."
    )
    fetch_window_seconds: float = Field(
        3300.0,
        ge=0,
        le=604_800,
        description="How long fetching is retried after the provider finished, in seconds. Replicate keeps files for "
        "an hour.",
    )
    calls_at_once: int = Field(
        8,
        ge=1,
        le=1000,
        description="Largest number of calls of one provider that are polled at once, fetched at "
        "once, and canceled at once.",
    )
    breaker_failures: int = Field(
        5,
        ge=1,
        le=1000,
        description="Number of failed jobs in a row before a provider is paused. Several failures of one job count "
        "once. The provider is paused for the tenant whose jobs failed, or for all tenants if jobs of "
        "several tenants failed.",
    )
    breaker_pause_seconds: float = Field(
        30.0,
        gt=0,
        le=86_400,
        description="Length of the first pause of a provider, in seconds. The length doubles with each further "
        "failure.",
    )
    breaker_max_pause_seconds: float = Field(
        600.0, gt=0, le=86_400, description="Longest pause of a provider, in seconds."
    )
    keep_days: int = Field(
        90, ge=1, le=36_500, description="How long finished calls and their callbacks are kept, in days."
    )


class SharingSettings(Section):
    enabled: bool = Field(
        True, description="Whether users may create public links. If switched off, existing links show nothing."
    )
    link_days: int = Field(
        30, ge=1, le=36_500, description="Days until a public link expires, if its owner chooses no other number."
    )
    max_link_days: int = Field(
        365, ge=1, le=36_500, description="Longest time until a public link expires that its owner may choose, in days."
    )
