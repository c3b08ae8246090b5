"""Uploads in parts of the S3 backend: multipart uploads of the service, through botocore in threads, because obstore
has no calls for them. A multipart upload that was completed takes no more parts, so its URLs cannot change the object.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from threading import Lock
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.session import get_session

from callsheet.media.storage.calls import CallKind, StorageCalls
from callsheet.media.storage.file_threads import FileThreads
from callsheet.media.storage.keys import validate_key
from callsheet.media.storage.port import SignedRequest, StoredPart
from callsheet.media.storage.s3_signing import S3Signer, as_base64, checksum_header
from callsheet.settings import S3Settings
from callsheet.toolbox.clock import Clock
from callsheet.wire.errors import NotFound, Unavailable

THREADS = 4
# Joining many parts may take minutes, and the service sends something meanwhile.
READ_SECONDS = 60
# The parts were joined or removed, or one of them is not what the service has.
_GONE = frozenset({"NoSuchUpload", "InvalidPart", "InvalidPartOrder"})
_REFUSED = frozenset({"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch"})
# Rights that no other call needs. Starting an upload and joining its parts needs s3:PutObject.
_RIGHTS = {
    "list_parts": "s3:ListMultipartUploadParts",
    "list_multipart_uploads": "s3:ListBucketMultipartUploads",
    "abort_multipart_upload": "s3:AbortMultipartUpload",
}
_FORBIDDEN = 403


class S3Parts:
    def __init__(
        self, settings: S3Settings, signer: S3Signer, calls: StorageCalls, *, url_seconds: int, clock: Clock
    ) -> None:
        self._settings = settings
        self._signer = signer
        self._calls = calls
        self._url_seconds = url_seconds
        self._clock = clock
        self._threads = FileThreads(THREADS)
        self._lock = Lock()
        self._client: Any = None

    async def start(self, key: str, *, content_type: str) -> str:
        """With the kind of the checksum: AWS takes checksums of parts only if the upload says so."""
        started = await self._call(
            "write", "create_multipart_upload", Key=key, ContentType=content_type, ChecksumAlgorithm="SHA256"
        )
        return str(started["UploadId"])

    def presign(self, key: str, upload_id: str, number: int, *, size: int, sha256: str) -> SignedRequest:
        expires_at = self._clock.now() + timedelta(seconds=self._url_seconds)
        headers = checksum_header(sha256)
        part = {"partNumber": str(number), "uploadId": upload_id}
        url = self._signer.put_part(validate_key(key), self._url_seconds, headers, size, part)
        return SignedRequest("PUT", url, headers, expires_at)

    async def arrived(self, key: str, upload_id: str) -> Sequence[StoredPart] | None:
        try:
            stored = await self._parts(key, upload_id)
        except NotFound:
            return None
        return [StoredPart(number, part["Size"]) for number, part in stored.items()]

    async def _parts(self, key: str, upload_id: str) -> dict[int, Any]:
        """By number: SeaweedFS lists a part that was sent twice twice, and so may need another page."""
        found: dict[int, Any] = {}
        after = 0
        while True:
            listed = await self._call("read", "list_parts", Key=key, UploadId=upload_id, PartNumberMarker=after)
            found |= {part["PartNumber"]: part for part in listed.get("Parts", ())}
            if not listed.get("IsTruncated") or listed["NextPartNumberMarker"] <= after:
                return found
            after = listed["NextPartNumberMarker"]

    async def join(self, key: str, upload_id: str, checksums: Sequence[str], *, content_type: str) -> None:
        """AWS compares the checksums with those of the parts that it has."""
        stored = await self._parts(key, upload_id)
        if len(stored) < len(checksums):
            raise NotFound()
        parts = [
            {"PartNumber": number, "ETag": stored[number]["ETag"], "ChecksumSHA256": as_base64(sha256)}
            for number, sha256 in enumerate(checksums, start=1)
        ]
        await self._call(
            "write", "complete_multipart_upload", Key=key, UploadId=upload_id, MultipartUpload={"Parts": parts}
        )

    async def abort(self, key: str) -> None:
        """Every upload of this key: one that a crash hid, or that lost a race, too."""
        listed = await self._call("read", "list_multipart_uploads", Prefix=key)
        for upload in listed.get("Uploads", ()):
            if upload["Key"] == key:
                try:
                    await self._call("write", "abort_multipart_upload", Key=key, UploadId=upload["UploadId"])
                except NotFound:
                    continue

    async def missing_rights(self) -> Sequence[str]:
        """Starts an upload that never gets a part, so nothing is left that costs money if it cannot be aborted."""
        key = f"callsheet-check/{secrets.token_hex(8)}"
        upload = {"Key": key, "UploadId": await self.start(key, content_type="application/octet-stream")}
        if await self._takes_wrong_checksum(upload):
            raise Unavailable("The object store accepts a part whose x-amz-checksum-sha256 is wrong.")
        calls = {"list_parts": upload, "list_multipart_uploads": {"Prefix": key}, "abort_multipart_upload": upload}
        return [_RIGHTS[name] for name, given in calls.items() if not await self._may(name, given)]

    async def _takes_wrong_checksum(self, upload: dict[str, str]) -> bool:
        try:
            checksum = as_base64("00" * 32)
            await self._call("write", "upload_part", **upload, PartNumber=1, Body=b"part", ChecksumSHA256=checksum)
        except Unavailable as error:
            if not isinstance(error.__cause__, ClientError):
                raise
            return False
        return True

    async def _may(self, name: str, parameters: dict[str, str]) -> bool:
        try:
            await self._call("read", name, **parameters)
        except Unavailable as error:
            cause = error.__cause__
            if not isinstance(cause, ClientError) or cause.response["ResponseMetadata"]["HTTPStatusCode"] != _FORBIDDEN:
                raise
            return False
        return True

    async def _call(self, kind: CallKind, name: str, **parameters: Any) -> Any:
        if "Key" in parameters:
            validate_key(parameters["Key"])
        # Joining is not timed: it depends on the size.
        with self._calls.measured(kind, is_timed=name != "complete_multipart_upload"):
            return await self._threads.run(self._send, name, parameters)

    def _send(self, name: str, parameters: dict[str, Any]) -> Any:
        with _refusals():
            send: Callable[..., Any] = getattr(self._connected(), name)
            return send(Bucket=self._settings.bucket, **parameters)

    def _connected(self) -> Any:
        """Made for the first large upload: it takes 14 MB."""
        with self._lock:
            if self._client is None:
                chosen = self._settings
                secret = chosen.secret_access_key
                self._client = get_session().create_client(
                    "s3",
                    region_name=chosen.region,
                    endpoint_url=chosen.endpoint_url,
                    # Without keys, botocore finds and renews those of the AWS chain.
                    aws_access_key_id=chosen.access_key_id,
                    aws_secret_access_key=None if secret is None else secret.get_secret_value(),
                    config=Config(
                        connect_timeout=5,
                        read_timeout=READ_SECONDS,
                        retries={"total_max_attempts": 4, "mode": "standard"},
                        s3={"addressing_style": chosen.addressing},
                        # Services other than AWS do not know the checksums that it adds otherwise.
                        request_checksum_calculation="when_required",
                        response_checksum_validation="when_required",
                        max_pool_connections=THREADS,
                    ),
                )
            return self._client

    def close(self) -> None:
        self._threads.close()


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        if code in _GONE:
            raise NotFound() from error
        if code in _REFUSED:
            raise Unavailable("The object store refused Callsheet's credentials.") from error
        raise Unavailable("The object store cannot be used.") from error
    except BotoCoreError as error:
        raise Unavailable("The object store cannot be used.") from error
