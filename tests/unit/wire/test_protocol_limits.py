"""The size limits that docs/protocol.md names are those of the messages: beyond them a value is refused or cut."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pydantic import BaseModel, ValidationError

from callsheet.settings import ServerSettings
from callsheet.wire.fleet import DeregisterRequest, RegisterRequest
from callsheet.wire.worker.environment import Environment
from callsheet.wire.worker.protocol import (
    CompleteRequest,
    DeferRequest,
    FailRequest,
    HeartbeatRequest,
    PollRequest,
    RequeueRequest,
)

PAGE = (Path(__file__).parents[3] / "docs" / "protocol.md").read_text()
LEASE = {"dispatch_id": 1, "lease_token": str(uuid4())}
REFUSED_INPUT = {"node_id": "1", "node_class": "KSampler"}
FILE = {"name": "a.png", "mime_type": "image/png", "size": 1}
MODELS: dict[str, tuple[type[BaseModel], dict[str, Any]]] = {
    "register": (RegisterRequest, {"worker_id": "gpu-1"}),
    "poll": (PollRequest, {}),
    "heartbeat": (HeartbeatRequest, LEASE),
    "complete": (CompleteRequest, LEASE),
    "fail": (FailRequest, LEASE),
    "requeue": (RequeueRequest, LEASE),
    "defer": (DeferRequest, {**LEASE, "provider_job_id": "p", "expires_at": "2030-01-01T00:00:00Z"}),
    "environment": (Environment, {}),
    "deregister": (DeregisterRequest, {}),
}


def files(count: int) -> list[dict[str, Any]]:
    return [{**FILE, "name": f"{number}.png"} for number in range(count)]


def preview_image(size: int) -> dict[str, str]:
    return {"mime_type": "image/png", "data": base64.b64encode(b"x" * size).decode()}


def mime(length: int) -> str:
    return f"image/{'x' * (length - 6)}" if length <= 106 else f"{'a' * 100}/{'x' * (length - 101)}"


def texts(count: int) -> list[str]:
    return [f"name-{number}" for number in range(count)]


# Message, field as the page names it, limit as the page writes it, the number, and a request with a value of that size.
REFUSED: list[tuple[str, str, str, int, Any]] = [
    ("register", "worker_id", "200 characters", 200, lambda n: {"worker_id": "x" * n}),
    ("register", "display_name", "200 characters", 200, lambda n: {"display_name": "x" * n}),
    ("register", "max_concurrency", "1 to 10,000", 10_000, lambda n: {"max_concurrency": n}),
    ("register", "instance_type", "200 characters", 200, lambda n: {"instance_type": "x" * n}),
    ("register", "providers", "50 entries", 50, lambda n: {"providers": texts(n)}),
    ("register", "fleet_slug", "63 characters", 63, lambda n: {"fleet_slug": "x" * n}),
    ("register", "stage", "63 characters", 63, lambda n: {"stage": "x" * n}),
    ("register", "workflow_slugs", "1,000 entries", 1000, lambda n: {"workflow_slugs": texts(n)}),
    ("poll", "current_load", "0 to 2,147,483,647", 2**31 - 1, lambda n: {"current_load": n}),
    ("poll", "max_concurrency", "1 to 2,147,483,647", 2**31 - 1, lambda n: {"max_concurrency": n}),
    ("poll", "providers", "50 entries", 50, lambda n: {"providers": texts(n)}),
    ("poll", "wait_seconds", "0 to 55", 55, lambda n: {"wait_seconds": n}),
    ("poll", "poll_id", "200 characters", 200, lambda n: {"poll_id": "x" * n}),
    ("poll", "active_leases", "1,000 entries", 1000, lambda n: {"active_leases": [str(uuid4()) for _ in range(n)]}),
    ("poll", "loaded_models", "64 entries", 64, lambda n: {"loaded_models": ["0123456789abcdef"] * n}),
    ("poll", "engine_use", "64 entries", 64, lambda n: {"engine_use": [{"name": "x", "slots": 1}] * n}),
    ("poll", "disk.free_bytes", "0 to 2^53", 2**53, lambda n: {"disk": {"free_bytes": n, "size_bytes": 1}}),
    ("poll", "disk.size_bytes", "0 to 2^53", 2**53, lambda n: {"disk": {"free_bytes": 1, "size_bytes": n}}),
    (
        "heartbeat",
        "active_leases",
        "1,000 entries",
        1000,
        lambda n: {"active_leases": [str(uuid4()) for _ in range(n)]},
    ),
    ("heartbeat", "preview.data", "65,536 bytes before base64", 65_536, lambda n: {"preview": preview_image(n)}),
    ("heartbeat", "outputs", "100 entries", 100, lambda n: {"outputs": files(n)}),
    ("heartbeat", "outputs.name", "255 characters", 255, lambda n: {"outputs": [{**FILE, "name": "x" * n}]}),
    ("heartbeat", "outputs.mime_type", "200 characters", 200, lambda n: {"outputs": [{**FILE, "mime_type": mime(n)}]}),
    ("heartbeat", "outputs.size", "2^53 bytes", 2**53, lambda n: {"outputs": [{**FILE, "size": n}]}),
    ("heartbeat", "provider_job_id", "200 characters", 200, lambda n: {"provider_job_id": "x" * n}),
    ("complete", "provider_job_id", "200 characters", 200, lambda n: {"provider_job_id": "x" * n}),
    ("fail", "provider_job_id", "200 characters", 200, lambda n: {"provider_job_id": "x" * n}),
    ("requeue", "provider_job_id", "200 characters", 200, lambda n: {"provider_job_id": "x" * n}),
    ("complete", "outputs", "2,000 entries", 2000, lambda n: {"outputs": files(n)}),
    ("complete", "outputs.name", "255 characters", 255, lambda n: {"outputs": [{**FILE, "name": "x" * n}]}),
    ("complete", "outputs.mime_type", "200 characters", 200, lambda n: {"outputs": [{**FILE, "mime_type": mime(n)}]}),
    ("complete", "outputs.size", "2^53 bytes", 2**53, lambda n: {"outputs": [{**FILE, "size": n}]}),
    (
        "requeue",
        "refusal.inputs",
        "20 entries",
        20,
        lambda n: {"refusal": {"error": {}, "inputs": [REFUSED_INPUT] * n}},
    ),
    ("environment", "node_classes", "10,000 entries", 10_000, lambda n: {"node_classes": texts(n)}),
    ("environment", "models", "5,000 entries", 5_000, lambda n: {"models": [{"name": name} for name in texts(n)]}),
    ("environment", "models.name", "300 characters", 300, lambda n: {"models": [{"name": "x" * n}]}),
    ("environment", "engine_versions", "64 entries", 64, lambda n: {"engine_versions": texts(n)}),
    ("environment", "node_forms", "250,000 characters", 250_000, lambda n: {"node_forms": "A" * ((n + 3) // 4 * 4)}),
    ("defer", "provider_job_id", "200 characters", 200, lambda n: {"provider_job_id": "x" * n}),
]
CUT: list[tuple[str, str, str, int, Any]] = [
    ("heartbeat", "progress.message", "cut at 500 characters", 500, lambda text: {"progress": {"message": text}}),
    ("fail", "error.type", "cut at 100 characters", 100, lambda text: {"error": {"type": text}}),
    ("fail", "error.message", "cut at 20,000 characters", 20_000, lambda text: {"error": {"message": text}}),
    ("fail", "error.traceback", "cut at 20,000 characters", 20_000, lambda text: {"error": {"traceback": text}}),
    ("heartbeat", "progress.node_id", "cut at 100 characters", 100, lambda text: {"progress": {"node_id": text}}),
    ("requeue", "reason", "cut at 500 characters", 500, lambda text: {"reason": text}),
    ("deregister", "reason", "cut at 500 characters", 500, lambda text: {"reason": text}),
]


def is_on_page(message: str, field: str, limit: str) -> bool:
    return f"| {message} | `{field}` | {limit} |" in PAGE


@pytest.mark.parametrize(
    ("message", "field", "limit", "maximum", "request_"), REFUSED, ids=lambda value: str(value)[:20]
)
def test_a_value_above_the_documented_limit_is_refused(
    message: str, field: str, limit: str, maximum: int, request_: Any
) -> None:
    assert is_on_page(message, field, limit)
    model, rest = MODELS[message]
    model.model_validate({**rest, **request_(maximum)})
    with pytest.raises(ValidationError):
        model.model_validate({**rest, **request_(maximum + 1)})


@pytest.mark.parametrize(("message", "field", "limit", "maximum", "request_"), CUT, ids=lambda value: str(value)[:20])
def test_a_free_text_that_is_longer_than_the_page_says_is_cut(
    message: str, field: str, limit: str, maximum: int, request_: Any
) -> None:
    assert is_on_page(message, field, limit)
    model, rest = MODELS[message]
    value: Any = model.model_validate({**rest, **request_("x" * (maximum + 1))})
    for name in field.split("."):
        value = getattr(value, name)
    assert len(value) == maximum


def test_the_page_names_the_largest_message() -> None:
    assert f"`server.max_body_bytes` ({ServerSettings().max_body_bytes:,} by default)" in PAGE


def test_every_bounded_field_of_a_message_is_on_the_page() -> None:
    """Flags, ids of fixed length and documents, which only the largest message bounds, have no limit of their own."""
    named = {(message, field.partition(".")[0]) for message, field, *_ in (*REFUSED, *CUT)}
    without = {
        "dispatch_id",
        "lease_token",
        "capabilities",
        "environment",
        "capacity_type",
        "prefetch",
        "run_started",
        "run_waiting",
        "refresh_inputs",
    }
    # A trace that is too large is dropped, not refused: tests/unit/wire/test_run_traces.py.
    without |= {"output", "result", "metadata", "error_message", "expires_at", "trace"}
    fields = {(message, name) for message, (model, _) in MODELS.items() for name in model.model_fields}
    assert {(message, name) for message, name in fields if name not in without} == named
