"""A worker's reports about its lease: heartbeat, complete, fail, requeue, defer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from callsheet.dispatch.facts import DispatchState
from callsheet.fleet.protocol.authentication import WorkerPrincipal
from callsheet.fleet.protocol.deliveries import Deliveries, Undeliverable, fresh_inputs
from callsheet.fleet.protocol.engine_refusals import EngineRefusals
from callsheet.fleet.protocol.outputs import (
    ExpectedOutput,
    InspectedOutput,
    OutputInspection,
    claims_of,
    refuse_repeated_names,
)
from callsheet.fleet.protocol.unnamed_leases import UnnamedLeases
from callsheet.fleet.protocol.worker_errors import failure_of, failure_of_error
from callsheet.fleet.registry.worker_log import Audit, Event, LeaseOutcome
from callsheet.jobs.lease.leases import Leases
from callsheet.jobs.lease.outcomes import Failure, LeaseEnded, LeaseReport, ReportOutcome
from callsheet.jobs.lease.progress import JobProgressWriter, ProgressReport
from callsheet.jobs.lease.provider_gate import CallReport, ProviderGate
from callsheet.jobs.lease.start import Starter
from callsheet.jobs.machine.transition_requests import JobOutputFile
from callsheet.plumbing.database.errors import DATABASE_AWAY
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.toolbox.ids import uuid7
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.redaction.sanitizing import clean_line
from callsheet.wire.errors import ContentMismatch, FieldProblem, InvalidRequest, sentences
from callsheet.wire.worker.errors import LeaseLost
from callsheet.wire.worker.protocol import (
    CompleteRequest,
    CompleteResponse,
    DeferRequest,
    DispatchResponse,
    FailRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    LeaseRequest,
    Refusal,
    RequeueRequest,
    RunEnd,
)
from callsheet.wire.worker.traces import UnreadableTrace

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WorkerReports:
    starter: Starter
    leases: Leases
    progress: JobProgressWriter
    deliveries: Deliveries
    inspection: OutputInspection
    audit: Audit
    refusals: EngineRefusals
    unnamed: UnnamedLeases
    disk: Literal["local", "s3"]
    gate: ProviderGate

    async def heartbeat(self, worker: WorkerPrincipal, request: HeartbeatRequest) -> HeartbeatResponse:
        outputs = request.outputs or []
        refuse_repeated_names([output.name for output in outputs])
        self.deliveries.refuse_too_large(outputs)
        self.inspection.refuse_empty(outputs)
        report = _report(worker, request)
        extended = await self.leases.heartbeat(
            report, bool(request.run_started), bool(request.run_waiting), request.provider_job_id
        )
        if request.active_leases is not None and extended.held_by_worker > len(request.active_leases):
            await self.unnamed.look(worker, request.active_leases)
        response: dict[str, Any] = {
            "lease_expires_at": extended.lease_expires_at,
            "lease_ttl_seconds": extended.ttl_seconds,
            "cancel_requested": extended.cancel_requested,
        }
        if outputs:
            response["uploads"] = self.deliveries.uploads(extended, report.token, outputs)
        if request.refresh_inputs:
            response |= await self._fresh_urls(report, extended.ttl_seconds)
        progress = progress_of(request)
        if progress is not None:
            try:
                await self.progress.record(extended.cycle, extended.lease_seq, progress)
            except DATABASE_AWAY as error:  # The lease was extended, and the worker needs only that.
                log.warning("progress.lost", job_id=str(extended.job_id), error=repr(error))
        return HeartbeatResponse(**response)

    async def _fresh_urls(self, report: LeaseReport, ttl_seconds: float) -> dict[str, Any]:
        started = await self.starter.repeat(report.dispatch_id, report.token, report.worker_id)
        if started is None:
            raise LeaseLost()
        try:
            urls = self.deliveries.signed_urls(started, ttl_seconds)
        except Undeliverable as why:
            raise InvalidRequest.field("refresh_inputs", str(why)) from why
        return {
            "inputs": fresh_inputs(started.payload, urls.assets),
            "input_url": urls.input_url,
            "output_url": urls.output_url,
            "output_headers": urls.output_headers,
        }

    async def complete(self, worker: WorkerPrincipal, request: CompleteRequest) -> CompleteResponse:
        report = _report(worker, request)
        try:
            dispatch = await self.leases.holding(report)
        except LeaseEnded as ended:
            return CompleteResponse(job_id=ended.outcome.job_id, status=ended.outcome.status)
        expected = await self.deliveries.expected(report, dispatch.tenant_id, dispatch.job_id)
        claims = claims_of(request, expected, dispatch.tenant_id, dispatch.job_id, report.token)
        inspected = await self.inspection.inspect(claims)
        refusal = self._refusal(dispatch, expected, inspected)
        if refusal is not None:
            await self.inspection.discard_copies(inspected)
            # If the job has ended meanwhile, it needs no outputs: the response reports the end, not the missing
            # outputs.
            if await self.leases.end_of(dispatch) is None:
                raise refusal
            inspected = []
        outputs = [self._output(each) for each in inspected]
        result = result_of(request, inspected, outputs)
        # The copies stay after this line: only the pool knows whether a file refers to them, and the sweep checks
        # there.
        outcome = await self.leases.complete(report, result, request.provider_job_id, outputs, held=dispatch)
        await hit(Failpoint.OUTPUT_ACCEPTED_BEFORE_DELETE)
        self.inspection.discard_uploads(inspected)
        await self._notify_gate("completed", outcome)
        details = {"outputs": len(outputs)} if outputs else {}
        await self._log_report(worker, request, "completed", outcome, details)
        return CompleteResponse(job_id=outcome.job_id, status=outcome.status)

    def _refusal(
        self, dispatch: DispatchState, expected: ExpectedOutput, inspected: Sequence[InspectedOutput]
    ) -> ContentMismatch | None:
        if expected.is_engine and not inspected:
            problem = FieldProblem("output", "A job of an engine must deliver at least one output.")
            return ContentMismatch(
                "The job delivered no output. A job of an engine must deliver at least one output.", errors=[problem]
            )
        problems = self.inspection.report(dispatch.dispatch_id, inspected)
        if not problems:
            return None
        return ContentMismatch(sentences(problems), errors=problems)

    def _output(self, inspected: InspectedOutput) -> JobOutputFile:
        claim = inspected.claim
        return JobOutputFile(
            file_id=uuid7(),
            disk=self.disk,
            path=inspected.path,
            name=inspected.name,
            mime_type=inspected.mime_type,
            size=inspected.size,
            sha256=inspected.sha256,
            metadata=without_graphs(claim.metadata),
        )

    async def fail(self, worker: WorkerPrincipal, request: FailRequest) -> DispatchResponse:
        failure = failure_of(request)
        outcome = await self.leases.fail(_report(worker, request), failure)
        await self._notify_gate("failed", outcome, failure)
        details = {"type": failure.type, "message": failure.message, "retryable": failure.retryable}
        return await self._log_report(worker, request, "failed", outcome, details)

    async def requeue(self, worker: WorkerPrincipal, request: RequeueRequest) -> DispatchResponse:
        if request.refusal is not None:
            return await self._requeue_refused(worker, request, request.refusal)
        reason = clean_line(request.reason or "") or "the worker gave no reason"
        outcome = await self.leases.requeue(_report(worker, request), reason)
        return await self._log_report(worker, request, "requeued", outcome, {"reason": reason})

    async def _requeue_refused(
        self, worker: WorkerPrincipal, request: RequeueRequest, refusal: Refusal
    ) -> DispatchResponse:
        """Handles a job that the worker's engine refused: it goes to another worker, waits for one, or fails."""
        report, failure = _report(worker, request), failure_of_error(refusal.error)
        try:
            dispatch = await self.leases.holding(report)
        except LeaseEnded as ended:
            return DispatchResponse(dispatch_id=request.dispatch_id, status=ended.outcome.status)
        verdict = await self.refusals.verdict(worker, dispatch, refusal.inputs)
        await hit(Failpoint.REFUSAL_BEFORE_REQUEUE)
        details = {"type": failure.type, "reason": failure.message}
        if verdict.is_requeued:
            outcome = await self.leases.requeue_refused(dispatch, report, failure, is_excluded=verdict.is_excluded)
            return await self._log_report(worker, request, "requeued", outcome, details)
        outcome = await self.leases.fail_held(dispatch, report, failure)
        return await self._log_report(worker, request, "failed", outcome, details)

    async def defer(self, worker: WorkerPrincipal, request: DeferRequest) -> DispatchResponse:
        try:
            outcome = await self.leases.defer(_report(worker, request), request.provider_job_id, request.expires_at)
        except LeaseLost:
            await self.gate.record_stray(request.dispatch_id, request.provider_job_id)
            raise
        if outcome.settled is None:
            await self.gate.record_stray(request.dispatch_id, request.provider_job_id)
        await self._notify_gate("deferred", outcome)
        details = {"provider_job_id": request.provider_job_id, "expires_at": request.expires_at.isoformat()}
        return await self._log_report(worker, request, "deferred", outcome, details)

    async def _notify_gate(
        self,
        happened: Literal["deferred", "completed", "failed"],
        outcome: ReportOutcome,
        failure: Failure | None = None,
    ) -> None:
        """Reports the outcome of a provider call to the gate, once: a repeated report changes nothing."""
        settled = outcome.settled
        if settled is None or not self.gate.concerns(settled.provider):
            return
        error = (None, None) if failure is None else (failure.type, failure.message)
        try:
            await self.gate.record(CallReport(happened, settled, *error))
        except DATABASE_AWAY as error:  # The report was recorded, and the gate reads the missed outcome from the rows.
            log.warning("gate.not_notified", dispatch_id=settled.dispatch_id, error=repr(error))

    async def _log_report(
        self,
        worker: WorkerPrincipal,
        request: LeaseRequest,
        event: Literal["completed", "failed", "requeued", "deferred"],
        outcome: ReportOutcome,
        details: Mapping[str, Any],
    ) -> DispatchResponse:
        """Logs one line for the change that this report made. A repeated report changes nothing, so it has no line."""
        if outcome.settled is not None:
            ran = outcome.settled.duration_seconds
            known = {"status": outcome.status} | ({} if ran is None else {"duration_seconds": round(ran, 3)})
            if isinstance(request, RunEnd) and isinstance(request.trace, UnreadableTrace):
                known |= {"trace_dropped": request.trace.reason}
            await self.audit.note(
                Event(
                    worker.worker_id,
                    worker.session_id,
                    event,
                    worker.actor,
                    request.dispatch_id,
                    {**known, **details},
                    settled=outcome.settled,
                    outcome=outcome_of_report(event, outcome.status),
                )
            )
        return DispatchResponse(dispatch_id=request.dispatch_id, status=outcome.status)


def outcome_of_report(kind: Literal["completed", "failed", "requeued", "deferred"], status: str) -> LeaseOutcome:
    """The outcome of the lease for its session. It depends on the new status of the job too, not only on the report."""
    match status:
        case "completed" | "failed":
            return status
        case "queued":
            return "failed" if kind == "failed" else "requeued"
        case _:
            return "ended"


def progress_of(request: HeartbeatRequest) -> ProgressReport | None:
    progress, preview = request.progress, request.preview
    if progress is None and preview is None:
        return None
    return ProgressReport(
        percent=progress.percent if progress else None,
        message=progress.message if progress else None,
        elapsed_ms=progress.elapsed_ms if progress else None,
        node_id=progress.node_id if progress else None,
        preview=preview.data if preview else None,
        preview_type=preview.mime_type if preview else None,
    )


# ComfyUI and its tools store the graph of a file under these names, with values that an effect may hide.
_GRAPH_NAMES = frozenset({"prompt", "workflow", "extra_pnginfo"})


def without_graphs(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """A worker's metadata of a file or a run, without graphs. Plain text, for example a prompt, stays."""
    return {
        name: value
        for name, value in metadata.items()
        if name.lower() not in _GRAPH_NAMES or not (isinstance(value, dict | list) or _is_json_object(value))
    }


def _is_json_object(value: object) -> bool:
    return isinstance(value, str) and value.lstrip()[:1] in ("{", "[")


def result_of(
    request: CompleteRequest, inspected: Sequence[InspectedOutput], outputs: Sequence[JobOutputFile]
) -> dict[str, Any]:
    """The result for the job's user: every file, and the worker's metadata of the run."""
    metadata: dict[str, Any] = {**((request.output.metadata if request.output else None) or {})}
    metadata = without_graphs(metadata | (request.metadata or {}))
    warnings = [
        f"{each.claim.name}: {each.problem or each.warning}" for each in inspected if each.problem or each.warning
    ]
    if warnings:
        metadata["warnings"] = warnings
    result: dict[str, Any] = {
        "outputs": [
            {
                "file_id": str(output.file_id),
                "name": output.name,
                "mime_type": output.mime_type,
                "size": output.size,
                "sha256": output.sha256,
            }
            for output in outputs
        ],
        "metadata": metadata,
    }
    return result if request.result is None else {**result, "result": request.result}


def _report(worker: WorkerPrincipal, request: LeaseRequest) -> LeaseReport:
    trace = request.trace if isinstance(request, RunEnd) else None
    kept = None if trace is None or isinstance(trace, UnreadableTrace) else trace.as_json()
    return LeaseReport(request.dispatch_id, request.lease_token, worker.worker_id, trace=kept or None)
