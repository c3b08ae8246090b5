"""The model: the effect of each event on jobs, dispatches and money. Pure, and simpler than the core."""

from __future__ import annotations

from callsheet.dispatch.facts import Criteria
from tests.chaos.core_state import DispatchKey, DispatchState, JobKey, JobState, State


def submit(state: State, key: JobKey, job: JobState) -> None:
    state.jobs[key] = job
    state.balances[job.payer(key[0])] -= job.cost
    _enqueue(state, (*key, job.cycle))
    job.status = "queued"


def begin(state: State, key: JobKey, job: JobState) -> str:
    """A synchronous job: its dispatch is leased from the first moment, unless its limit is reached."""
    submit(state, key, job)
    dispatch = state.dispatches[*key, job.cycle]
    if _is_at_limit(state, dispatch):
        return job.status
    dispatch.status = "leased"
    dispatch.seq = dispatch.attempts = job.lease_seq = 1
    job.status = "processing"
    return job.status


def relay(state: State) -> None:
    for *key, action in sorted(state.outbox):
        tenant_id, job_id, cycle = key
        job = state.jobs[tenant_id, job_id]
        live = job.cycle == cycle and job.active
        if action == "close" and not live:
            end_dispatch(state, (tenant_id, job_id, cycle))
        elif action == "dispatch" and live:
            if (tenant_id, job_id, cycle) not in state.dispatches:
                _enqueue(state, (tenant_id, job_id, cycle))
            if job.status == "pending":
                job.status = "queued"
    state.outbox.clear()


def lease(state: State, criteria: Criteria) -> DispatchKey | None:
    """Highest priority first, then oldest. What has ended is closed on the way."""
    while True:
        ready = [(-d.route[3], d.dispatch_id, key) for key, d in state.dispatches.items() if _ready(state, d, criteria)]
        if not ready:
            return None
        key = min(ready)[2]
        dispatch, job = state.dispatches[key], state.jobs[key[:2]]
        if ended(state, key) is not None:
            del state.dispatches[key]
            continue
        dispatch.status = "leased"
        dispatch.seq += 1
        dispatch.attempts += 1
        job.status, job.lease_seq = "processing", dispatch.seq
        # The dispatch exists, so a start does what a relay that crashed has left.
        state.outbox.discard((*key, "dispatch"))
        return key


def end(state: State, key: DispatchKey, status: str) -> str:
    """A report that ends the job, unless the job has ended otherwise. Returns how the job ended."""
    found = ended(state, key)
    if found is None:
        settle(state, key[:2], status)
    del state.dispatches[key]
    return found or status


def queue_again(
    state: State, key: DispatchKey, *, attempt_counts: bool, requeue: bool = False, delay: bool = False
) -> None:
    dispatch, job = state.dispatches[key], state.jobs[key[:2]]
    if ended(state, key) is not None:
        del state.dispatches[key]
        return
    dispatch.status = "delayed" if delay else "queued"
    dispatch.token, dispatch.expired = None, False
    dispatch.attempts -= 0 if attempt_counts else 1
    dispatch.requeues += 1 if requeue else 0
    if job.status == "processing":
        job.status = "queued"


def defer(state: State, key: DispatchKey) -> None:
    dispatch = state.dispatches[key]
    dispatch.status, dispatch.token, dispatch.expired = "waiting", None, False


def reap(state: State) -> None:
    for key, dispatch in list(state.dispatches.items()):
        if dispatch.status == "waiting" and (dispatch.expired or dispatch.canceled):
            end(state, key, "expired")
        elif dispatch.status == "leased" and dispatch.expired:
            if dispatch.canceled or dispatch.attempts >= dispatch.max_attempts:
                end(state, key, "failed")
            else:
                queue_again(state, key, attempt_counts=True)
    for key, dispatch in list(state.dispatches.items()):
        if dispatch.status == "queued" and dispatch.overdue and ended(state, key) is not None:
            del state.dispatches[key]


def enforce_deadlines(state: State) -> None:
    for key, job in state.jobs.items():
        if job.overdue and job.active:
            cancel(state, key, "expired" if job.status == "processing" else "failed")


def cancel(state: State, key: JobKey, status: str = "canceled") -> None:
    settle(state, key, status)
    end_dispatch(state, (*key, state.jobs[key].cycle))


def retry(state: State, key: JobKey) -> None:
    job = state.jobs[key]
    job.ends += (job.status,)
    job.cycle += 1
    job.lease_seq = 0
    job.overdue = False
    job.status = "queued"
    state.balances[job.payer(key[0])] -= job.cost
    _enqueue(state, (*key, job.cycle))


def settle(state: State, key: JobKey, status: str) -> None:
    job = state.jobs[key]
    job.status = status
    state.outbox.discard((*key, job.cycle, "dispatch"))
    if status != "completed":
        state.balances[job.payer(key[0])] += job.cost


def end_dispatch(state: State, key: DispatchKey) -> None:
    """The job has ended: its dispatch is removed, or is marked as canceled for the worker that holds it."""
    dispatch = state.dispatches.get(key)
    if dispatch is not None and dispatch.status == "leased":
        dispatch.canceled = True
    elif dispatch is not None:
        del state.dispatches[key]


def ended(state: State, key: DispatchKey) -> str | None:
    job = state.jobs[key[:2]]
    if job.cycle > key[2]:
        return job.ends[key[2] - 1]
    return None if job.active else job.status


def _enqueue(state: State, key: DispatchKey) -> None:
    job = state.jobs[key[:2]]
    state.dispatches[key] = DispatchState("queued", job.route, job.max_attempts, job.overdue)


def _ready(state: State, dispatch: DispatchState, criteria: Criteria) -> bool:
    if dispatch.status != "queued" or dispatch.overdue or not dispatch.matches(criteria):
        return False
    return dispatch.attempts < dispatch.max_attempts and not _is_at_limit(state, dispatch)


def _is_at_limit(state: State, dispatch: DispatchState) -> bool:
    limit = state.limits.get(dispatch.identifier)
    out = sum(other.held for other in state.dispatches.values() if other.identifier == dispatch.identifier)
    return limit is not None and out >= limit
