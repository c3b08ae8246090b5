"""When a provider is paused, and for which tenants. Pure.

A payload can make a provider fail that works for others: it returns 500, or not in time, to that payload alone. So
failed calls of one tenant pause the provider for this tenant, and for all only where calls of several failed. In an
installation with one tenant both are the same, and the quieter way is taken: its jobs are not even leased.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Call:
    """What distinguishes one call from another for a breaker. `lease_seq` 0 is a call of our own."""

    provider: str
    tenant_id: UUID
    dispatch_id: int
    lease_seq: int = 0


@dataclass(frozen=True, slots=True)
class Breaker:
    """Closed: `pause_seconds` is None. `failures` are in a row; `dispatches` and `tenants` are whose they were."""

    failures: int = 0
    dispatches: tuple[int, ...] = ()
    tenants: tuple[UUID, ...] = ()
    pause_seconds: float | None = None
    # The call that tries a provider after its pause.
    trial: tuple[int, int] | None = None
    shut_for: UUID | None = None

    @property
    def is_open(self) -> bool:
        return self.pause_seconds is not None

    def concerns(self, tenant_id: UUID) -> bool:
        return self.is_open and self.shut_for in (None, tenant_id)


@dataclass(frozen=True, slots=True)
class Limits:
    """`failures` in a row open it; each trial that fails doubles the pause up to the longest."""

    failures: int
    pause_seconds: float
    longest_pause_seconds: float


def after_failure(breaker: Breaker, call: Call, limits: Limits, *, several_tenants: bool) -> tuple[Breaker, bool]:
    """The breaker after a call that the provider did not answer, and whether a pause begins now.

    `several_tenants`: whether the installation has more than one.
    """
    if not breaker.is_open:
        return _counted(breaker, call, limits, several_tenants)
    if breaker.trial == (call.dispatch_id, call.lease_seq):
        pause = min((breaker.pause_seconds or 0) * 2, limits.longest_pause_seconds)
        # A single job was tried, so it may have been the job: others find out for themselves.
        scope = call.tenant_id if several_tenants else None
        failed = replace(breaker, failures=breaker.failures + 1, tenants=(call.tenant_id,), shut_for=scope)
        return replace(failed, pause_seconds=pause, trial=None), True
    if not breaker.concerns(call.tenant_id):
        return replace(breaker, tenants=_with(breaker.tenants, call.tenant_id), shut_for=None), False
    # Calls that began before it opened say nothing new.
    return breaker, False


def _counted(breaker: Breaker, call: Call, limits: Limits, several_tenants: bool) -> tuple[Breaker, bool]:
    if call.dispatch_id in breaker.dispatches:
        return breaker, False
    counted = replace(
        breaker,
        failures=breaker.failures + 1,
        dispatches=(*breaker.dispatches, call.dispatch_id),
        tenants=_with(breaker.tenants, call.tenant_id),
    )
    if counted.failures < limits.failures:
        return counted, False
    scope = call.tenant_id if several_tenants and counted.tenants == (call.tenant_id,) else None
    return replace(counted, pause_seconds=limits.pause_seconds, shut_for=scope), True


def _with(tenants: tuple[UUID, ...], tenant_id: UUID) -> tuple[UUID, ...]:
    """Two are as good as a hundred."""
    return tenants if tenant_id in tenants or len(tenants) > 1 else (*tenants, tenant_id)
