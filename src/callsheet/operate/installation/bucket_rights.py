"""Checks whether the bucket can be used for uploads in parts, which need rights of their own."""

from __future__ import annotations

import json
from collections.abc import Sequence

from callsheet.media.storage import Storage
from callsheet.settings import Settings
from callsheet.settings.findings import SettingsFinding
from callsheet.wire.errors import Unavailable

# The other rights are of the objects.
OF_BUCKET = frozenset({"s3:ListBucketMultipartUploads"})


async def parts_findings(settings: Settings, storage: Storage) -> list[SettingsFinding]:
    try:
        missing = await storage.parts.missing_rights()
    except Unavailable as error:
        reason = str(error.__cause__ or "").partition("\n")[0]
        message = f"Files cannot be uploaded in parts: {error} {reason}".rstrip()
        advice = (
            "Use a service that can, or upload each file by one request: set CALLSHEET_STORAGE__PARTS_ABOVE_BYTES to "
            f"{settings.storage.max_upload_bytes}."
        )
        return [SettingsFinding("storage", "problem", message, advice)]
    if not missing:
        return []
    message = f"The keys of the bucket lack {', '.join(missing)}: files of many parts cannot be stored or removed."
    return [SettingsFinding("storage", "problem", message, f"Add to their policy: {policy(settings, missing)}")]


def policy(settings: Settings, rights: Sequence[str]) -> str:
    """The statements of a policy that grants these rights."""
    bucket = f"arn:aws:s3:::{settings.storage.s3.bucket}"
    granted = {
        bucket: [right for right in rights if right in OF_BUCKET],
        f"{bucket}/*": [right for right in rights if right not in OF_BUCKET],
    }
    return json.dumps(
        [{"Effect": "Allow", "Action": found, "Resource": resource} for resource, found in granted.items() if found]
    )
