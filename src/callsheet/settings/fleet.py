"""Settings of fleets and their workers, and of the autoscaler. The database has the driver of each scaled fleet."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr, field_validator

from callsheet.settings.values import Names
from callsheet.toolbox.sections import Section, WebAddress


class FleetSettings(Section):
    secret: SecretStr | None = Field(
        None,
        description="Shared secret with which workers can join every fleet, stage and workflow. It has 16 characters "
        "or more and is the same on all control planes. Registration tokens of fleets are safer: create "
        "one with `callsheet fleets tokens create`. Default: none. Workers on the control plane's "
        "machine can use the secret that `callsheet fleets secret` prints.",
    )
    secret_attempts_per_address: int = Field(
        20,
        ge=1,
        le=100_000,
        description="Allowed wrong fleet secrets and registration tokens per network address within "
        "login_window_seconds.",
    )
    auto_approve: bool | None = Field(
        None,
        description="Whether a worker that registers with the shared secret gets jobs before an admin has approved it. "
        "Default: only if it registers over loopback. Workers with a registration token are approved at once.",
    )
    max_workers: int = Field(
        50,
        ge=1,
        le=1_000_000,
        description="Largest number of registered workers, of all fleets together. In-process workers of control "
        "planes do not count.",
    )
    # A worker that polls with the longest wait sends a request every 55 seconds.
    stale_seconds: int = Field(
        300,
        ge=120,
        le=86_400,
        description="A worker that holds no lease and sent no request for this time is removed, in seconds.",
    )
    response_envelope: Literal["none", "data"] = Field(
        "none",
        description="With `data`, responses of the worker protocol also have all their fields inside the field "
        "`data`, for worker programs that expect them there. The header X-Callsheet-Envelope of a "
        "request overrides this setting.",
    )
    output_validation: Literal["enforce", "warn"] = Field(
        "enforce",
        description="Whether a completion is refused if an output is missing, empty or not as declared (enforce), or "
        "only logged (warn).",
    )
    audit_log_days: int | None = Field(
        90, ge=1, le=36_500, description="How long worker events are kept, in days. Null: forever."
    )
    # The session of a removed worker keeps its token for 30 days.
    session_days: int | None = Field(
        365,
        ge=31,
        le=36_500,
        description="How long ended sessions of workers are kept, in days. Null: forever.",
    )
    validate_asg_instance: bool = Field(
        False,
        description="Whether a worker's id must be the id of an instance in an AWS autoscaling group. Other ids are "
        "refused.",
    )
    asg_fail_open: bool = Field(
        True,
        description="Whether an instance may register while AWS is not reachable to verify it. An alert names such "
        "workers.",
    )
    asg_names: Names = Field(
        (), description="Allowed autoscaling groups, comma separated. Default: all groups of the account."
    )
    asg_region: str | None = Field(
        None, description="Region of the autoscaling groups. Default: the region of the AWS chain."
    )
    asg_endpoint_url: WebAddress | None = Field(None, description="URL of the autoscaling API. Default: Amazon's.")
    asg_timeout_seconds: float = Field(
        3.0, gt=0, le=60, description="Timeout for AWS, in seconds. After that fleet.asg_fail_open decides."
    )

    @field_validator("secret")
    @classmethod
    def _secret_can_be_a_header(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not re.fullmatch(r"[!-~]{16,}", value.get_secret_value()):
            raise ValueError("must have 16 characters or more, letters, digits and signs without spaces")
        return value


_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


def _are_commands(commands: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    for name, command in commands.items():
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} must be a name of lower-case letters, digits, dashes and underscores")
        if not command or not command[0] or any("\0" in part for part in command):
            raise ValueError(f"{name} must be a list of a program and its arguments")
    return commands


class ScalingSettings(Section):
    autoscaler: bool = Field(
        True,
        description="Whether this control plane may scale fleets. Only one control plane does so at a time.",
    )
    interval_seconds: float = Field(
        5.0, ge=1, le=60, description="How often the autoscaler checks the queue of every scaled fleet, in seconds."
    )
    driver_seconds: float = Field(60.0, ge=1, le=600, description="Timeout for one call of a driver, in seconds.")
    commands: Annotated[dict[str, tuple[str, ...]], AfterValidator(_are_commands)] = Field(
        {},
        description="Programs that fleets with the driver `command` may run, as JSON: a name, and a list of the "
        'program and its arguments, for example {"rent": ["/usr/local/bin/rent-gpus"]}. They are run without a shell.',
    )
    decisions_days: int = Field(90, ge=1, le=36_500, description="How long scaling decisions are kept, in days.")
