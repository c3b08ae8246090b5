"""Whether a worker that registers may have jobs at once, or waits for a person. Pure."""

from __future__ import annotations

from callsheet.fleet.credentials import Credential, SecretCredential


def is_approved_at_once(
    credential: Credential, auto_approve: bool | None, *, approved_by_person: bool, secret_was_revoked: bool
) -> bool:
    """`approved_by_person`: somebody approved this id before. `secret_was_revoked`: a worker that came with the same
    secret was revoked. Ids are free to choose, so every worker with that secret may be that one under another id: none
    is approved without a person, whatever the setting, until the secret is changed or the worker is approved again."""
    if not isinstance(credential, SecretCredential):
        # Who made the token decided; and a control plane's own worker is the control plane.
        return True
    if secret_was_revoked:
        return False
    by_setting = credential.is_local if auto_approve is None else auto_approve
    return approved_by_person or by_setting
