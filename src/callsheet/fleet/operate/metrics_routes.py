"""`/api/admin/metrics`: metrics as JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from callsheet.dispatch.facts import JobCycle
from callsheet.fleet.operate.metrics import FleetOverview, QueueHead
from callsheet.identity.access.authentication import Authentication
from callsheet.identity.access.permissions import Permission
from callsheet.jobs.show.outlook import PAUSED
from callsheet.plumbing.http.routing import Router
from callsheet.wire.jobs import WhyWaiting
from callsheet.wire.operate.operations import Metrics, WorkflowMetrics

WhyQueued = Callable[[Sequence[JobCycle]], Awaitable[Mapping[JobCycle, WhyWaiting]]]


def overview_router(overview: FleetOverview, why_queued: WhyQueued, authentication: Authentication) -> Router:
    router = Router(prefix="/api/admin", tags=["admin"], dependencies=[authentication.may(Permission.SEE_QUEUE)])

    @router.get("/metrics")
    async def get_metrics() -> Metrics:
        """Queues, workers, and the jobs that finished in the last hour. For Prometheus, use /metrics."""
        figures = await overview.figures()
        oldest = _oldest(figures.heads)
        reasons = await why_queued([head.cycle for head in oldest.values()])
        workflows = [
            row.model_copy(update={"why_waiting": _why(row, oldest.get(row.workflow), reasons)})
            for row in figures.metrics.workflows
        ]
        return figures.metrics.model_copy(update={"workflows": workflows})

    return router


def _oldest(heads: Sequence[QueueHead]) -> dict[str, QueueHead]:
    """The job of each workflow that has waited longest."""
    found: dict[str, QueueHead] = {}
    for head in heads:
        if head.slug not in found or head.wait_seconds > found[head.slug].wait_seconds:
            found[head.slug] = head
    return found


def _why(row: WorkflowMetrics, oldest: QueueHead | None, reasons: Mapping[JobCycle, WhyWaiting]) -> WhyWaiting | None:
    if oldest is not None:
        return reasons.get(oldest.cycle)
    # Lanes of a paused provider have no head.
    return WhyWaiting(code="provider_at_limit", message=PAUSED) if row.queued else None
