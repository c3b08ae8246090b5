"""Clients of AWS Auto Scaling. boto3 is loaded with the first one: it takes a third of a second and 30 MB."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from botocore.loaders import Loader
    from mypy_boto3_autoscaling import AutoScalingClient


def autoscaling_client(
    region: str | None, endpoint_url: str | None, *, timeout_seconds: float | None = None
) -> AutoScalingClient:
    """A client. With a timeout, a call is made once; without it, boto3's own timeouts and retries apply."""
    import boto3
    import botocore.session
    from botocore.config import Config

    session = botocore.session.get_session()
    session.register_component("data_loader", _loader())
    once = Config(connect_timeout=timeout_seconds, read_timeout=timeout_seconds, retries={"total_max_attempts": 1})
    return boto3.Session(botocore_session=session).client(
        "autoscaling",
        region_name=region,
        endpoint_url=endpoint_url,
        config=None if timeout_seconds is None else once,
    )


@cache
def _loader() -> Loader:
    """The descriptions of AWS's API, shared by all sessions: each client would need 8 MB for its own."""
    from botocore.loaders import create_loader

    return create_loader()
