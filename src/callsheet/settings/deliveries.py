"""Settings of the webhooks that users get."""

from __future__ import annotations

from pydantic import Field

from callsheet.toolbox.sections import Section


class DeliverySettings(Section):
    endpoints_per_user: int = Field(20, ge=0, le=1000, description="Largest number of webhook endpoints of a user.")
    endpoints_per_tenant: int = Field(
        1000, ge=0, le=100_000, description="Largest number of webhook endpoints of all users of a tenant."
    )
    waiting_per_endpoint: int = Field(
        10_000,
        ge=1,
        le=10_000_000,
        description="Largest number of events that wait for an endpoint. With more it is disabled, and its user gets a "
        "mail. For an hour after an endpoint was enabled, twice as many may wait.",
    )
    waiting_bytes_per_endpoint: int = Field(
        52_428_800,
        ge=65_536,
        le=2**40,
        description="Largest size of the events that wait for an endpoint, in bytes, as for their number.",
    )
    allow_http: bool = Field(
        False,
        description="Whether endpoints may have URLs with http:// on other machines. Private networks also need "
        "outgoing.allow_networks.",
    )
    timeout_seconds: float = Field(10.0, ge=1, le=60, description="Timeout of one request to an endpoint, in seconds.")
    retry_hours: float = Field(
        24.0,
        ge=0.1,
        le=720,
        description="How long an event is tried again, and how long an endpoint may fail, in hours.",
    )
    keep_days: float = Field(7.0, ge=1, le=400, description="How long the log of deliveries is kept, in days.")
    keep_per_endpoint: int = Field(
        20_000,
        ge=100,
        le=10_000_000,
        description="Largest number of deliveries in the log of an endpoint. Older ones are deleted.",
    )
