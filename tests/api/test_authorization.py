"""G6: permissions of every route. Every route of the OpenAPI document is in this table, or the test fails."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from enum import Enum
from typing import Any

import httpx
import pytest
from starlette.routing import Route

from callsheet.app.control_plane import ControlPlane
from tests.support.http.authorization_setup import AuthorizationSetup

CALLERS = (
    "nobody",
    "revoked key",
    "expired key",
    "disabled user",
    "user of a disabled tenant",
    "stranger",
    "colleague",
    "owner",
    "owner's session",
    "owner's read key",
    "owner's submit key",
    "tenant admin",
    "tenant admin's own key",
    "tenant admin of another tenant",
    "viewer",
    "operator",
    "operator's own key",
    "operator's admin key",
    "service key",
    "service read key",
    "service key for no user",
    "service key of another tenant",
    "worker",
    "other worker",
    "revoked worker",
    "fleet secret",
    "fleet token",
    "revoked fleet token",
    "secret as a token",
    "key as the secret",
    "token as the secret",
)
# Who proves nothing: nearly every route refuses all of them in one and the same place.
UNKNOWN = (
    "revoked key",
    "expired key",
    "disabled user",
    "user of a disabled tenant",
    "revoked worker",
    "revoked fleet token",
    "secret as a token",
    "key as the secret",
    "token as the secret",
)
TENANT_ADMINS = {"tenant admin", "tenant admin of another tenant"}
OTHERS = ("stranger", "colleague", "tenant admin", "tenant admin of another tenant", "viewer", "operator")
USERS = {*OTHERS, "owner", "owner's session"}
# Keys that may do less than their users: whose they are, and their scopes. All others have every scope of their role.
SCOPED: dict[str, tuple[str, set[str]]] = {
    "owner's read key": ("owner", {"read"}),
    "owner's submit key": ("owner", {"submit"}),
    "tenant admin's own key": ("tenant admin", {"read", "submit"}),
    "operator's own key": ("operator", {"read", "submit"}),
    "operator's admin key": ("operator", {"admin"}),
}
# Keys of a tenant, with all scopes but one. They act for the owner, or for no user.
SERVICE_KEYS = {"service key", "service read key", "service key for no user", "service key of another tenant"}
# A service key is refused here, although it acts for a user: it never touches the account itself.
PERSONAL = {"POST /api/me/password", "GET /api/keys", "DELETE /api/keys/{key_id}", "GET /api/sessions"}
WORKERS = {"worker", "other worker"}


class Access(Enum):
    ANYBODY = "anybody"
    ACCOUNT = "everybody who is signed in, for themselves"
    SESSION = "every user with a browser session, for themselves; no API key"
    USER = "every user, for themselves; a viewer may only read"
    OWNER = "its owner; for everybody else it is not there; a viewer may only read"
    OPERATOR = "operators"
    SEEN = "operators and viewers"
    TENANT_LIST = "operators and viewers; a tenant admin gets what is its tenant's"
    TENANT_SEEN = "operators and viewers, and the tenant's admins; for those of others it is not there"
    TENANT_NEW = "operators, and tenant admins for their own tenant"
    TENANT_MANAGED = "operators, and the tenant's admins; for those of others it is not there"
    FLEET = "who has a token of a fleet, or the shared secret"
    WORKER = "every worker, for itself"
    HOLDER = "the worker that holds the lease; for others it is not there"
    SIGNATURE = "who has a signed URL"
    PROVIDER = "who signs as the provider that was called; for others it is not there"
    SERVICE = "service keys with the scope credit, for users of their tenant"
    TENANT_SERVER = "service keys that act for no user, for their tenant"


ANYBODY, ACCOUNT, SESSION = Access.ANYBODY, Access.ACCOUNT, Access.SESSION
USER, OWNER = Access.USER, Access.OWNER
OPERATOR, SEEN, TENANT_LIST, TENANT_SEEN = Access.OPERATOR, Access.SEEN, Access.TENANT_LIST, Access.TENANT_SEEN
TENANT_NEW, TENANT_MANAGED = Access.TENANT_NEW, Access.TENANT_MANAGED
ADMINISTRATION = {OPERATOR, SEEN, TENANT_LIST, TENANT_SEEN, TENANT_NEW, TENANT_MANAGED}
FLEET, WORKER, HOLDER, SIGNATURE = Access.FLEET, Access.WORKER, Access.HOLDER, Access.SIGNATURE
PROVIDER, SERVICE, TENANT_SERVER = Access.PROVIDER, Access.SERVICE, Access.TENANT_SERVER

TABLE: dict[Access, str] = {
    ANYBODY: """
        GET /
        GET /healthz
        GET /readyz
        GET /metrics
        POST /api/auth/login
        POST /api/auth/once
        GET /api/auth/demo
        POST /api/auth/demo
        GET /api/invitations/{token}
        POST /api/invitations/{token}
        POST /api/password-resets
        POST /api/password-resets/{token}
        GET /api/shares/{token}
        GET /api/shares/{token}/media/{name}
    """,
    ACCOUNT: """
        POST /api/auth/logout
        GET /api/me
        POST /api/stream-tokens
        POST /api/me/password
    """,
    SESSION: """
        POST /api/keys
        DELETE /api/sessions
        DELETE /api/sessions/{session_id}
    """,
    USER: """
        GET /api/keys
        GET /api/sessions
        POST /api/videos/uploads
        GET /api/videos/uploads/limits
        POST /api/videos
        GET /api/videos
        GET /api/effects
        GET /api/effects/{effect}
        POST /api/ai-jobs
        GET /api/ai-jobs
        GET /api/ai-jobs/stream
        POST /api/quotes
        POST /api/task
        GET /api/task
        GET /api/actors
        GET /api/providers
        POST /api/providers/{provider}/preview
        POST /api/generate/copy
        POST /api/generate/scrape
        POST /api/generate/static-ad
        POST /api/generate/video
        POST /api/generate/tts
        GET /api/products
        POST /api/pipelines
        GET /api/pipelines
        GET /api/pipeline-workflows
        GET /api/pipeline-templates
        POST /api/pipelines/preview
        GET /api/runs
        GET /api/library/jobs
        GET /api/library/counts
        GET /api/shares
        GET /api/webhook-endpoints
        POST /api/webhook-endpoints
        POST /api/library/cancel
        POST /api/library/retry
        POST /api/library/delete
        GET /api/library/download
        POST /api/batches
        GET /api/batches
        GET /api/wallet
        GET /api/wallet/transactions
        GET /api/wallet/holds
        GET /api/budgets
    """,
    OWNER: """
        DELETE /api/keys/{key_id}
        POST /api/videos/uploads/{file_id}/confirm
        GET /api/videos/uploads/{file_id}/parts
        POST /api/videos/uploads/{file_id}/parts
        GET /api/videos/{video_id}
        DELETE /api/videos/{video_id}
        GET /api/videos/{video_id}/preview
        GET /api/files/{file_id}
        DELETE /api/files/{file_id}
        GET /api/library/jobs/{job_id}
        GET /api/ai-jobs/{job_id}
        GET /api/ai-jobs/{job_id}/stream
        GET /api/ai-jobs/{job_id}/events
        DELETE /api/ai-jobs/{job_id}
        POST /api/ai-jobs/{job_id}/shares
        GET /api/ai-jobs/{job_id}/shares
        DELETE /api/ai-jobs/{job_id}/shares/{share_id}
        POST /api/ai-jobs/{job_id}/cancel
        POST /api/ai-jobs/{job_id}/retry
        GET /api/batches/{batch_id}
        GET /api/batches/{batch_id}/values
        POST /api/batches/{batch_id}/cancel
        POST /api/batches/{batch_id}/retry
        GET /api/batches/{batch_id}/download
        GET /api/task/{task_id}
        GET /api/task/{task_id}/stream
        POST /api/task/{task_id}/cancel
        POST /api/task/{task_id}/retry
        GET /api/products/{product_id}
        DELETE /api/products/{product_id}
        GET /api/pipelines/{pipeline}
        PATCH /api/pipelines/{pipeline}
        DELETE /api/pipelines/{pipeline}
        POST /api/pipelines/{pipeline}/runs
        GET /api/pipelines/{pipeline}/runs
        GET /api/pipelines/{pipeline}/versions
        GET /api/runs/{run_id}
        PATCH /api/runs/{run_id}
        DELETE /api/runs/{run_id}
        POST /api/runs/{run_id}/pause
        POST /api/runs/{run_id}/resume
        POST /api/runs/{run_id}/cancel
        GET /api/runs/{run_id}/tree
        GET /api/runs/{run_id}/candidates
        GET /api/runs/{run_id}/winners
        GET /api/runs/{run_id}/pair
        GET /api/runs/{run_id}/pairs
        GET /api/runs/{run_id}/gates
        GET /api/runs/{run_id}/spending
        GET /api/runs/{run_id}/votes
        POST /api/runs/{run_id}/votes
        DELETE /api/runs/{run_id}/votes/{vote_id}
        POST /api/runs/{run_id}/steps/{step}/approve
        GET /api/runs/{run_id}/export
        GET /api/candidates/{candidate_id}
        GET /api/candidates/{candidate_id}/branch
        POST /api/candidates/{candidate_id}/kill
        POST /api/candidates/{candidate_id}/restore
        GET /api/candidates/{candidate_id}/lineage
        POST /api/candidates/{candidate_id}/replay
        GET /api/webhook-endpoints/{endpoint_id}
        PATCH /api/webhook-endpoints/{endpoint_id}
        DELETE /api/webhook-endpoints/{endpoint_id}
        POST /api/webhook-endpoints/{endpoint_id}/rotate-secret
        POST /api/webhook-endpoints/{endpoint_id}/test
        GET /api/webhook-endpoints/{endpoint_id}/deliveries
        POST /api/webhook-endpoints/{endpoint_id}/deliveries/{delivery_id}/redeliver
        POST /api/webhook-endpoints/{endpoint_id}/replay
    """,
    FLEET: "POST /api/worker/register",
    WORKER: """
        POST /api/worker/poll
        POST /api/worker/environment
        POST /api/worker/deregister
    """,
    HOLDER: """
        POST /api/worker/heartbeat
        POST /api/worker/complete
        POST /api/worker/fail
        POST /api/worker/requeue
        POST /api/worker/defer
    """,
    SIGNATURE: """
        GET /storage/{key}
        HEAD /storage/{key}
        PUT /storage/{key}
        GET /api/previews/{key}
    """,
    PROVIDER: "POST /api/webhooks/{provider}/{callback_id}",
    SERVICE: """
        POST /api/wallet/credits
        POST /api/wallet/debits
    """,
    TENANT_SERVER: """
        GET /api/tenant/jobs
        GET /api/tenant/jobs/stream
    """,
    TENANT_LIST: """
        GET /api/admin/tenants
        GET /api/admin/users
        GET /api/admin/invitations
        GET /api/admin/tenant-figures
    """,
    TENANT_SEEN: """
        GET /api/admin/users/{user_id}
        GET /api/admin/users/{user_id}/keys
        GET /api/admin/users/{user_id}/sessions
        GET /api/admin/tenants/{tenant_id}
        GET /api/admin/tenants/{tenant_id}/service-keys
        GET /api/admin/users/{user_id}/wallet
        GET /api/admin/users/{user_id}/wallet/transactions
        GET /api/admin/users/{user_id}/jobs
        GET /api/admin/tenants/{tenant_id}/jobs
        GET /api/admin/tenants/{tenant_id}/quotas
        GET /api/admin/tenants/{tenant_id}/wallet
        GET /api/admin/tenants/{tenant_id}/wallet/transactions
        GET /api/admin/tenants/{tenant_id}/share
        GET /api/admin/tenants/{tenant_id}/budgets
        GET /api/admin/tenants/{tenant_id}/budgets/{budget_id}
        GET /api/admin/tenants/{tenant_id}/budgets/{budget_id}/periods
        GET /api/admin/tenants/{tenant_id}/spending
        GET /api/admin/tenants/{tenant_id}/spending.csv
        GET /api/admin/tenants/{tenant_id}/jobs/{job_id}
        GET /api/admin/jobs/{job_id}
        GET /api/admin/jobs/{job_id}/waterfall
    """,
    TENANT_NEW: """
        POST /api/admin/users
        POST /api/admin/invitations
    """,
    TENANT_MANAGED: """
        PUT /api/admin/users/{user_id}/role
        POST /api/admin/users/{user_id}/disable
        POST /api/admin/users/{user_id}/enable
        DELETE /api/admin/users/{user_id}
        POST /api/admin/users/{user_id}/keys
        POST /api/admin/tenants/{tenant_id}/service-keys
        DELETE /api/admin/tenants/{tenant_id}/service-keys/{service_key_id}
        POST /api/admin/users/{user_id}/password-reset
        DELETE /api/admin/invitations/{invitation_id}
        DELETE /api/admin/users/{user_id}/keys/{key_id}
        DELETE /api/admin/users/{user_id}/sessions
        DELETE /api/admin/users/{user_id}/sessions/{session_id}
        POST /api/admin/tenants/{tenant_id}/budgets
        PATCH /api/admin/tenants/{tenant_id}/budgets/{budget_id}
        DELETE /api/admin/tenants/{tenant_id}/budgets/{budget_id}
        POST /api/admin/tenants/{tenant_id}/jobs/{job_id}/cancel
        POST /api/admin/tenants/{tenant_id}/jobs/{job_id}/retry
        POST /api/admin/jobs/{job_id}/cancel
        POST /api/admin/jobs/{job_id}/retry
    """,
    SEEN: """
        GET /api/admin/mails
        GET /api/admin/audit-logs
        GET /api/admin/metrics
        GET /api/admin/alerts
        GET /api/admin/statistics
        GET /api/admin/jobs
        GET /api/admin/job-totals
        GET /api/admin/job-errors
        GET /api/admin/job-errors/{fingerprint}
        GET /api/admin/jobs/{job_id}/error-group
        GET /api/admin/bulk-actions
        GET /api/admin/bulk-actions/{bulk_action_id}
        GET /api/admin/workflows
        GET /api/admin/workflows/{workflow}
        GET /api/admin/workflows/{workflow}/versions
        GET /api/admin/workflows/{workflow}/workers
        GET /api/admin/workflows/{workflow}/versions/{version}
        GET /api/admin/effects
        GET /api/admin/effects/{effect}
        GET /api/admin/assets
        GET /api/admin/assets/{asset_id}
        GET /api/admin/dispatches
        GET /api/admin/dispatches/{dispatch_id}
        GET /api/admin/concurrency-limits
        GET /api/admin/workers
        GET /api/admin/workers/{worker_id}
        GET /api/admin/workers/{worker_id}/utilisation
        GET /api/admin/worker-sessions
        GET /api/admin/worker-audit-logs
        GET /api/admin/fleets
        GET /api/admin/fleets/{fleet_id}
        GET /api/admin/fleets/{fleet_id}/tokens
        GET /api/admin/fleets/{fleet_id}/workflows
        GET /api/admin/fleets/{fleet_id}/scaling/metric
        GET /api/admin/fleets/{fleet_id}/scaling
        GET /api/admin/fleets/{fleet_id}/scaling/decisions
        GET /api/admin/scaling-drivers
        GET /api/admin/providers
        GET /api/admin/provider-spend
        GET /api/admin/pools
        GET /api/admin/settings
        GET /api/admin/health
        GET /api/admin/ledger-audits
        GET /api/admin/ledger-audits/{audit_id}
    """,
    OPERATOR: """
        POST /api/admin/alerts/test
        POST /api/admin/mails/{mail_id}/send
        POST /api/admin/tenants
        PATCH /api/admin/tenants/{tenant_id}/quotas
        PATCH /api/admin/tenants/{tenant_id}/share
        PATCH /api/admin/tenants/{tenant_id}/wallet
        POST /api/admin/tenants/{tenant_id}/wallet/credits
        POST /api/admin/tenants/{tenant_id}/wallet/debits
        POST /api/admin/tenants/{tenant_id}/disable
        POST /api/admin/tenants/{tenant_id}/enable
        POST /api/admin/users/{user_id}/credits
        POST /api/admin/users/{user_id}/debits
        POST /api/admin/ledger-audits
        POST /api/admin/workflows
        PATCH /api/admin/workflows/{workflow}
        DELETE /api/admin/workflows/{workflow}
        POST /api/admin/workflows/{workflow}/activate
        POST /api/admin/workflows/{workflow}/deactivate
        POST /api/admin/workflows/proposals
        POST /api/admin/workflows/{workflow}/test-runs
        POST /api/admin/effects
        PATCH /api/admin/effects/{effect}
        DELETE /api/admin/effects/{effect}
        PUT /api/admin/effects/{effect}/preview
        DELETE /api/admin/effects/{effect}/preview
        POST /api/admin/assets
        POST /api/admin/assets/{asset_id}/confirm
        DELETE /api/admin/assets/{asset_id}
        POST /api/admin/jobs
        POST /api/admin/bulk-actions
        POST /api/admin/bulk-actions/{bulk_action_id}/stop
        POST /api/admin/dispatches/{dispatch_id}/requeue
        POST /api/admin/dispatches/{dispatch_id}/cancel
        POST /api/admin/dispatches/{dispatch_id}/priority
        PUT /api/admin/concurrency-limits
        POST /api/admin/workers/{worker_id}/approve
        POST /api/admin/workers/{worker_id}/revoke
        POST /api/admin/workers/{worker_id}/drain
        POST /api/admin/workers/{worker_id}/undrain
        POST /api/admin/workers/{worker_id}/rotate-token
        PUT /api/admin/workers/{worker_id}/workflows
        POST /api/admin/fleets
        PATCH /api/admin/fleets/{fleet_id}
        DELETE /api/admin/fleets/{fleet_id}
        PUT /api/admin/fleets/{fleet_id}/workflows
        PATCH /api/admin/fleets/{fleet_id}/workflows
        PUT /api/admin/fleets/{fleet_id}/scaling
        DELETE /api/admin/fleets/{fleet_id}/scaling
        POST /api/admin/fleets/{fleet_id}/tokens
        POST /api/admin/fleets/{fleet_id}/tokens/{fleet_token_id}/rotate
        POST /api/admin/fleets/{fleet_id}/tokens/{fleet_token_id}/revoke
        POST /api/admin/providers/{provider}/reset
    """,
}
ACCESS = {line.strip(): access for access, lines in TABLE.items() for line in lines.splitlines() if line.strip()}
# Where an owner's own request meets no success: nothing is there yet, or the job's state forbids it.
NOT_NOW = {
    # The run is paused, and only an ended run can be deleted.
    "DELETE /api/runs/{run_id}": 409,
    # The job has made nothing yet, so it has no links.
    "POST /api/ai-jobs/{job_id}/shares": 409,
    "DELETE /api/ai-jobs/{job_id}/shares/{share_id}": 404,
    "DELETE /api/sessions/{session_id}": 404,
    # The file was uploaded by one request.
    "GET /api/videos/uploads/{file_id}/parts": 409,
    "POST /api/videos/uploads/{file_id}/parts": 409,
    # The item of the batch waits.
    "GET /api/batches/{batch_id}/download": 404,
    # No job has failed.
    "GET /api/admin/job-errors/{fingerprint}": 404,
    "GET /api/admin/jobs/{job_id}/error-group": 404,
    "DELETE /api/admin/users/{user_id}/sessions/{session_id}": 404,
    "GET /api/videos/{video_id}/preview": 404,
    "DELETE /api/videos/{video_id}": 409,
    "POST /api/ai-jobs/{job_id}/retry": 409,
    "DELETE /api/ai-jobs/{job_id}": 409,
    "POST /api/task/{task_id}/retry": 409,
    "DELETE /api/pipelines/{pipeline}": 409,
    # Its steps were made of no effect.
    "POST /api/pipelines/{pipeline}/runs": 409,
    # Its job was made of no effect.
    "POST /api/candidates/{candidate_id}/replay": 422,
}
REPORTS: dict[str, dict[str, Any]] = {
    "POST /api/worker/heartbeat": {},
    "POST /api/worker/complete": {"output": {"size": 1, "mime_type": "video/mp4"}},
    "POST /api/worker/fail": {"error_message": "It broke."},
    "POST /api/worker/requeue": {"reason": "spot notice"},
    "POST /api/worker/defer": {"provider_job_id": "p-1", "expires_at": "2100-01-01T00:00:00Z"},
}
# Ids that a request names in its body: other users send each id of the owner. A new field fails until it is listed
# here.
NAMED: dict[str, dict[str, str]] = {
    "POST /api/videos": {"original_file_id": "file_id"},
    "POST /api/ai-jobs": {"video_id": "video_id", "input_file_id": "file_id"},
    "POST /api/generate/copy": {"product_id": "product_id"},
    "POST /api/generate/static-ad": {"product_id": "product_id"},
    "POST /api/generate/video": {"product_id": "product_id"},
}
# The same where the URL path is the owner's already: other users find nothing there, whatever the body names.
BODIES: dict[str, dict[str, str]] = {
    # An outcome for each job: tests/api/test_library_actions.py.
    "POST /api/library/cancel": {"job_ids": "job_id"},
    "POST /api/library/retry": {"job_ids": "job_id"},
    "POST /api/library/delete": {"job_ids": "job_id"},
    # A filter: it never shows a job to a user who could not see it.
    "POST /api/webhook-endpoints": {"effect_ids": "effect"},
    "PATCH /api/webhook-endpoints/{endpoint_id}": {"effect_ids": "effect"},
    "POST /api/runs/{run_id}/votes": {"winner_id": "candidate_id", "loser_id": "rival_id"},
}
# What a body needs to be looked at any further.
WHOLE: dict[str, dict[str, Any]] = {
    "POST /api/videos/uploads/{file_id}/parts": {"parts": [{"number": 1, "sha256": "0" * 64}]},
    "POST /api/pipelines/{pipeline}/runs": {"name": "A run", "budget": 1},
    # Or a request for something of another tenant would be refused for its body.
    "PATCH /api/webhook-endpoints/{endpoint_id}": {},
    "POST /api/webhook-endpoints/{endpoint_id}/replay": {"since": "2026-11-16T00:00:00Z"},
    "POST /api/admin/tenants/{tenant_id}/budgets": {"name": "Another", "period": "day", "limit": 1_000_000},
    "PUT /api/admin/users/{user_id}/role": {"role": "tenant_admin"},
    "POST /api/admin/users/{user_id}/keys": {"name": "another"},
    "POST /api/admin/tenants/{tenant_id}/service-keys": {"name": "another", "scopes": ["read"]},
}
# What a refused request could have changed, read by users with access: the URL path, and the fields that must stay.
STATE: dict[str, tuple[str, tuple[str, ...]]] = {
    "GET /api/ai-jobs/{job_id}": ("owner", ("status", "charge_cycle", "priority")),
    "GET /api/task/{task_id}": ("owner", ("status", "retry_count")),
    "GET /api/products/{product_id}": ("owner", ("title",)),
    "GET /api/videos/{video_id}": ("owner", ("status", "job_id")),
    "GET /api/files/{file_id}": ("owner", ("status",)),
    "GET /api/wallet": ("owner", ("balance",)),
    "GET /api/pipelines/{pipeline}": ("owner", ("name", "version")),
    "GET /api/runs/{run_id}": ("owner", ("name", "status", "budget")),
    "GET /api/webhook-endpoints/{endpoint_id}": ("owner", ("url", "events", "enabled")),
    "GET /api/candidates/{candidate_id}": ("owner", ("status", "elo", "votes")),
    "GET /api/admin/dispatches/{dispatch_id}": (
        "operator",
        ("status", "worker_id", "priority", "requeues", "attempts"),
    ),
    "GET /api/admin/workers/{worker_id}": (
        "operator",
        ("is_approved", "is_draining", "rotation_pending", "revoked_at", "workflows", "session_id"),
    ),
    "GET /api/admin/workflows/{workflow}": ("operator", ("updated_at", "is_active")),
    "GET /api/admin/effects/{effect}": ("operator", ("updated_at", "is_published")),
    "GET /api/admin/assets/{asset_id}": ("operator", ("status",)),
    "GET /api/admin/fleets/{fleet_id}": ("operator", ("name", "is_active", "workflows", "workers")),
}


@pytest.fixture(scope="module")
async def shared(api_plane: ControlPlane) -> AsyncIterator[AuthorizationSetup]:
    """For requests that are refused, and so leave everything as it is."""
    async with httpx.AsyncClient(base_url=api_plane.settings.public_url, trust_env=False, timeout=30) as client:
        yield await AuthorizationSetup.open(api_plane, client)


@pytest.fixture(scope="module")
def unchanged() -> list[AuthorizationSetup]:
    """The setup of the last test if its request changed nothing: a new one takes 25 requests."""
    return []


async def test_every_route_is_classified(plane: ControlPlane, client: httpx.AsyncClient) -> None:
    paths = (await client.get("/openapi.json")).json()["paths"]
    documented = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    # The worker protocol has an application of its own, whose routes might be missing in the document.
    protocol = {f"POST {route.path}" for route in plane.rooms.worker_api.app.routes if isinstance(route, Route)}
    assert protocol == {operation for operation in documented if operation.startswith("POST /api/worker/")}
    assert documented - ACCESS.keys() == set(), "say in TABLE who may call these"
    assert ACCESS.keys() - documented == set(), "these are gone"


def scope_needed(access: Access, operation: str) -> str | None:
    """The scope that a key needs for an operation of its user."""
    if operation == "GET /api/admin/fleets/{fleet_id}/scaling/metric":
        # A number for an autoscaler outside, whose key should open nothing else.
        return "read"
    if access in ADMINISTRATION:
        return "admin"
    if access in (USER, OWNER):
        return "read" if operation.startswith("GET") else "submit"
    return "read" if operation == "POST /api/stream-tokens" else None


def refusal(access: Access, caller: str, operation: str) -> int | None:
    """The status a caller is refused with, or None where it may pass."""
    if caller in SERVICE_KEYS:
        return _refusal_of_service_key(access, caller, operation)
    if caller in SCOPED:
        user, scopes = SCOPED[caller]
        status, needed = refusal(access, user, operation), scope_needed(access, operation)
        return 403 if status != 401 and needed is not None and needed not in scopes else status
    if access is ANYBODY:
        return None
    if access in (SIGNATURE, PROVIDER):
        return 403 if access is SIGNATURE else 404
    if access is FLEET:
        return None if caller in ("fleet secret", "fleet token") else 401
    if access in (WORKER, HOLDER):
        if caller not in WORKERS:
            return 401
        return 404 if access is HOLDER and caller == "other worker" else None
    if caller not in USERS:
        return 401
    if access in (SERVICE, TENANT_SERVER):
        return 403
    if access is SESSION:
        return None if caller.endswith("session") else 403
    if access in ADMINISTRATION:
        return _refusal_of_administration(access, caller)
    if access in (USER, OWNER) and caller == "viewer" and not operation.startswith("GET"):
        return 403
    return 404 if access is OWNER and caller not in ("owner", "owner's session") else None


def _refusal_of_service_key(access: Access, caller: str, operation: str) -> int | None:
    if access in (ANYBODY, SIGNATURE, PROVIDER, FLEET, WORKER, HOLDER):
        return refusal(access, "operator", operation)
    if caller == "service key of another tenant":
        return 404
    if access is SESSION or access in ADMINISTRATION or operation in PERSONAL:
        return 403
    if access is SERVICE:
        return {"service key": None, "service read key": 403}.get(caller, 422)
    if access is TENANT_SERVER:
        return None if caller == "service key for no user" else 422
    if access is ACCOUNT:
        return 422 if caller == "service key for no user" and "stream-tokens" in operation else None
    if caller == "service read key" and not operation.startswith("GET"):
        return 403
    return 422 if caller == "service key for no user" else None


def _refusal_of_administration(access: Access, caller: str) -> int | None:
    if caller == "operator":
        return None
    if caller == "viewer":
        return None if access in (SEEN, TENANT_LIST, TENANT_SEEN) else 403
    if caller not in TENANT_ADMINS or access in (OPERATOR, SEEN):
        return 403
    # The tenant matters only where the URL path names something of a tenant.
    elsewhere = caller == "tenant admin of another tenant" and access in (TENANT_SEEN, TENANT_MANAGED)
    return 404 if elsewhere else None


@pytest.mark.parametrize("operation", sorted(ACCESS))
async def test_g6_a_caller_without_the_permission_is_refused_and_sees_no_data(
    shared: AuthorizationSetup, operation: str
) -> None:
    """Of the callers with invalid credentials (UNKNOWN), each route gets a request from one, in turn."""
    in_turn = UNKNOWN[sorted(ACCESS).index(operation) % len(UNKNOWN)]
    for caller in CALLERS:
        if caller not in UNKNOWN or caller == in_turn:
            await _refused(shared, operation, caller)


@pytest.mark.thorough
@pytest.mark.parametrize("operation", sorted(ACCESS))
async def test_g6_a_caller_without_valid_credentials_is_refused_by_every_route(
    shared: AuthorizationSetup, operation: str
) -> None:
    for caller in UNKNOWN:
        await _refused(shared, operation, caller)


async def _refused(setup: AuthorizationSetup, operation: str, caller: str) -> None:
    """If it has to be."""
    status = refusal(ACCESS[operation], caller, operation)
    if status is None:
        return
    response = await setup.ask(caller, operation, _body(setup, operation))
    assert response.status_code == status, f"{caller}: {response.text}"
    if response.request.method != "HEAD":
        assert response.headers["content-type"] == "application/problem+json"
        assert not [hidden for hidden in setup.hidden if hidden in response.text], caller


@pytest.mark.thorough
async def test_g6_a_refused_request_changes_nothing(plane: ControlPlane, client: httpx.AsyncClient) -> None:
    setup = await AuthorizationSetup.open(plane, client)
    before = await _state(setup)
    for operation, access in ACCESS.items():
        for caller in CALLERS:
            if not operation.startswith("GET") and refusal(access, caller, operation) is not None:
                await setup.ask(caller, operation, _body(setup, operation))
    assert await _state(setup) == before


async def _state(setup: AuthorizationSetup) -> dict[str, Any]:
    state: dict[str, Any] = {}
    for operation, (caller, fields) in STATE.items():
        shown = (await setup.ask(caller, operation)).json()
        state |= {f"{operation} {field}": shown[field] for field in fields}
    keys = (await setup.ask("owner", "GET /api/keys")).json()["items"]
    tenants = (await setup.ask("operator", "GET /api/admin/tenants", limit="200")).json()["items"]
    state["tenant"] = [tenant["disabled_at"] for tenant in tenants if tenant["id"] == setup.names["tenant_id"]]
    return state | {"keys": {key["id"]: key["revoked_at"] for key in keys}}


async def test_g6_an_id_of_another_user_in_a_body_is_refused_like_an_unknown_id(shared: AuthorizationSetup) -> None:
    document = (await shared.client.get("/openapi.json")).json()
    found = {operation: names for operation in ACCESS if (names := _ids_in_body(document, operation))}
    known = {operation: set(fields) for operation, fields in (NAMED | BODIES).items()}
    assert found == known, "say in NAMED or BODIES what they stand for"
    for operation, fields in NAMED.items():
        for field, name in fields.items():
            body = {"effect_id": shared.names["effect"], "input_payload": {"prompt": "a cat"}}
            body = {field: shared.names[name], **(body if "ai-jobs" in operation else {})}
            for caller in set(OTHERS) - {"viewer"}:
                response = await shared.ask(caller, operation, body)
                assert response.status_code == 422, response.text
                assert [error["field"] for error in response.json()["errors"]] == [field]
                assert "no such" in response.text
                assert not [hidden for hidden in shared.hidden if hidden in response.text]


def _ids_in_body(document: dict[str, Any], operation: str) -> set[str]:
    """Only requests of users: admins may name any user, and workers name what they were given."""
    method, _, path = operation.partition(" ")
    content = document["paths"][path][method.lower()].get("requestBody", {}).get("content", {})
    reference = content.get("application/json", {}).get("schema", {}).get("$ref")
    if reference is None or ACCESS[operation] not in (USER, OWNER):
        return set()
    fields = document["components"]["schemas"][reference.rpartition("/")[2]]["properties"]
    return {name for name, schema in fields.items() if '"uuid"' in json.dumps(schema)}


@pytest.mark.parametrize("cursor", ["ffffffff-ffff-ffff-ffff-ffffffffffff", str(2**62)])
async def test_g6_no_cursor_leads_to_data_of_other_users(shared: AuthorizationSetup, cursor: str) -> None:
    for operation in [operation for operation, access in ACCESS.items() if access is USER]:
        for caller in OTHERS:
            if operation.startswith("GET"):
                response = await shared.ask(caller, operation, cursor=cursor, limit="200")
                assert response.status_code in (200, 422)
                if not response.headers["content-type"].startswith("text/event-stream"):
                    assert not [hidden for hidden in shared.hidden if hidden in response.text], caller


@pytest.mark.few_forms
@pytest.mark.parametrize(
    "operation",
    [operation for operation, access in sorted(ACCESS.items()) if access in (USER, ACCOUNT, SESSION, ANYBODY)],
)
async def test_g6_public_routes_show_no_data_of_other_users(shared: AuthorizationSetup, operation: str) -> None:
    for caller in OTHERS:
        response = await shared.ask(caller, operation, {})
        assert response.status_code < 500
        # The installation of this test is not a demo, so no caller enters the demo.
        may = refusal(ACCESS[operation], caller, operation) is None and operation != "POST /api/auth/demo"
        assert (response.status_code not in (401, 403)) is may, f"{caller}: {response.text}"
        if not response.headers["content-type"].startswith("text/event-stream"):
            assert not [hidden for hidden in shared.hidden if hidden in response.text], caller


@pytest.mark.few_forms
@pytest.mark.parametrize(
    "operation",
    [
        operation
        for operation, access in sorted(ACCESS.items())
        if access in ADMINISTRATION and operation.startswith("GET")
    ],
)
async def test_g6_responses_of_administration_contain_no_secret(shared: AuthorizationSetup, operation: str) -> None:
    """And it is shown to every role that may see it, to a tenant admin without what is another tenant's."""
    for caller in CALLERS:
        if refusal(ACCESS[operation], caller, operation) is not None:
            continue
        response = await shared.ask(caller, operation)
        assert response.status_code == NOT_NOW.get(operation, 200), f"{caller}: {response.text}"
        assert not [secret for secret in shared.secrets if secret in response.text], caller
        if caller == "tenant admin of another tenant":
            assert not [hidden for hidden in shared.hidden if hidden in response.text]


LET_THROUGH: dict[Access, tuple[str, ...]] = {
    **dict.fromkeys(ADMINISTRATION, ("operator",)),
    **dict.fromkeys((TENANT_NEW, TENANT_MANAGED), ("operator", "tenant admin")),
    OWNER: ("owner",),
    HOLDER: ("worker",),
    WORKER: ("worker",),
}


@pytest.mark.few_forms
@pytest.mark.parametrize(
    "operation", [operation for operation, access in sorted(ACCESS.items()) if access is OWNER and "GET" in operation]
)
async def test_an_owner_may_read_their_own_data(shared: AuthorizationSetup, operation: str) -> None:
    for caller in ("owner", "owner's session", "owner's read key"):
        response = await shared.ask(caller, operation, _body(shared, operation))
        assert response.status_code == NOT_NOW.get(operation, 200), f"{caller}: {response.text}"


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("operation", "caller"),
    [
        (operation, caller)
        for operation, access in sorted(ACCESS.items())
        for caller in LET_THROUGH.get(access, ())
        if not operation.startswith("GET")
    ],
)
async def test_a_caller_with_the_right_is_not_refused(
    shared: AuthorizationSetup, unchanged: list[AuthorizationSetup], plane: ControlPlane, operation: str, caller: str
) -> None:
    """Or the refusals above would only show that nothing is there."""
    setup = unchanged.pop() if unchanged else await AuthorizationSetup.open(plane, shared.client)
    response = await setup.ask(caller, operation, _body(setup, operation))
    # What users create or rename does not conflict with other requests.
    harmless = "{" not in operation or operation.startswith(("PATCH", "PUT"))
    if not response.is_success or (harmless and ACCESS[operation] not in (WORKER, HOLDER)):
        unchanged.append(setup)
    expected = NOT_NOW.get(operation)
    if ACCESS[operation] is OWNER:
        assert response.is_success if expected is None else response.status_code == expected, response.text
    else:
        # An operator's empty body is refused for what it lacks; a completion for an output that is not there.
        assert response.is_success or response.status_code in (409, 422, expected), response.text


def _body(setup: AuthorizationSetup, operation: str) -> dict[str, Any]:
    if operation in WHOLE:
        return WHOLE[operation]
    if operation in BODIES:
        return {field: setup.names[name] for field, name in BODIES[operation].items()}
    return {**setup.lease, **REPORTS[operation]} if operation in REPORTS else {}
