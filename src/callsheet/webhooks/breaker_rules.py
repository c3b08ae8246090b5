"""When a provider is paused, and for which tenants. Pure.

A single payload can make a provider fail that works for all others: the provider returns 500, or times out. Failed
calls of one tenant therefore pause the provider for this tenant only, and for all tenants if calls of several tenants
failed. In an installation with one tenant the pause is for all, and its jobs are not leased.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Call:
    """Identifies a call for a breaker. `lease_seq` 0: a call of the control plane itself."""

    provider: str
    tenant_id: UUID
    dispatch_id: int
    lease_seq: int = 0


@dataclass(frozen=True, slots=True)
class Breaker:
    """Closed if `pause_seconds` is None. `failures` in a row, with the dispatches and tenants of the failed calls."""

    failures: int = 0
    dispatches: tuple[int, ...] = ()
    tenants: tuple[UUID, ...] = ()
    pause_seconds: float | None = None
    # The call that tests the provider after its pause.
    trial: tuple[int, int] | None = None
    shut_for: UUID | None = None

    @property
    def is_open(self) -> bool:
        return self.pause_seconds is not None

    def concerns(self, tenant_id: UUID) -> bool:
        return self.is_open and self.shut_for in (None, tenant_id)


@dataclass(frozen=True, slots=True)
class BreakerLimits:
    """`failures` in a row open a breaker. Each failed test doubles the pause, up to the longest."""

    failures: int
    pause_seconds: float
    max_pause_seconds: float


def after_failure(
    breaker: Breaker, call: Call, limits: BreakerLimits, *, several_tenants: bool
) -> tuple[Breaker, bool]:
    """The breaker after a failed call, and whether a pause starts now.

    `several_tenants`: whether the installation has more than one tenant.
    """
    if not breaker.is_open:
        return _count_failure(breaker, call, limits, several_tenants)
    if breaker.trial == (call.dispatch_id, call.lease_seq):
        pause = min((breaker.pause_seconds or 0) * 2, limits.max_pause_seconds)
        # Only one job was tested, and its payload may be the reason: the pause is for its tenant.
        scope = call.tenant_id if several_tenants else None
        failed = replace(breaker, failures=breaker.failures + 1, tenants=(call.tenant_id,), shut_for=scope)
        return replace(failed, pause_seconds=pause, trial=None), True
    if not breaker.concerns(call.tenant_id):
        return replace(breaker, tenants=_with(breaker.tenants, call.tenant_id), shut_for=None), False
    # A call that started before the breaker opened gives no new information.
    return breaker, False


def _count_failure(breaker: Breaker, call: Call, limits: BreakerLimits, several_tenants: bool) -> tuple[Breaker, bool]:
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
    """Two tenants are enough to see that several have failed."""
    return tenants if tenant_id in tenants or len(tenants) > 1 else (*tenants, tenant_id)
