"""Priorities of users' jobs. Users choose among a few values, because each priority of each user is a separate
queue.
"""

from __future__ import annotations

from callsheet.identity.access.permissions import Permission
from callsheet.identity.access.principal import Principal
from callsheet.wire.errors import InvalidRequest
from callsheet.wire.jobs import MIN_USER_PRIORITY


def check_priority(principal: Principal, priority: int) -> None:
    if not MIN_USER_PRIORITY <= priority <= 0 and not principal.may(Permission.IGNORE_LIMITS):
        allowed = f"The priority must be 0 (the default) to {MIN_USER_PRIORITY} (last)"
        raise InvalidRequest.field("priority", f"{allowed}. Only operators may use other values.")
