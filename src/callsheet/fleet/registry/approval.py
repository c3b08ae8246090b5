"""Decides whether a worker that registers gets jobs at once or waits for approval by a person. Pure."""

from __future__ import annotations

from callsheet.fleet.registry.credentials import Credential, SecretCredential


def is_approved_at_once(
    credential: Credential, auto_approve: bool | None, *, approved_by_person: bool, secret_was_revoked: bool
) -> bool:
    """Whether the worker is approved without a person.

    `approved_by_person`: a user approved this id before. `secret_was_revoked`: a worker with the same secret was
    revoked. Workers choose their ids, so any worker with that secret may be the revoked one under another id.
    Therefore, no worker with that secret is approved without a person until the secret changes or the worker is
    approved again.
    """
    if not isinstance(credential, SecretCredential):
        # The user who created the token decided this. An in-process worker is part of the control plane.
        return True
    if secret_was_revoked:
        return False
    by_setting = credential.is_local if auto_approve is None else auto_approve
    return approved_by_person or by_setting
