"""Builds what a worker gets with a lease: the job, and signed URLs that are valid as long as the lease."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from callsheet.dispatch.facts import LeaseExtension
from callsheet.fleet.protocol.outputs import ExpectedOutput, extension_of, output_key
from callsheet.jobs.lease.outcomes import LeaseReport, StartedLease
from callsheet.jobs.lease.start import Starter
from callsheet.media.storage import SignedRequest, Storage
from callsheet.media.storage.port import MAX_URL_SECONDS
from callsheet.media.task_files import addressed, files_of
from callsheet.wire.errors import InvalidRequest, NotFound
from callsheet.wire.plurals import counted
from callsheet.wire.worker.protocol import (
    AnnouncedOutput,
    CallbackAddress,
    Input,
    InputFile,
    OutputFile,
    Upload,
    WorkerJob,
)

# Maximum number of cached jobs that workers hold. Each entry takes some hundred bytes.
MAX_REMEMBERED = 20_000
# Minimum time for a service to read a URL that it got.
SERVICE_SECONDS = 3600


class Undeliverable(Exception):
    """The job's payload names a file that can never be sent to a worker."""


@dataclass(frozen=True, slots=True)
class SignedUrls:
    """All signed URLs of a job."""

    # One URL per asset in storage, by the asset's index in the payload.
    assets: Mapping[int, str]
    input_url: str | None
    output: SignedRequest | None
    # URLs of files that a task reads, by path.
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def output_url(self) -> str | None:
        return self.output.url if self.output else None

    @property
    def output_headers(self) -> dict[str, str]:
        return dict(self.output.headers) if self.output else {}


class Deliveries:
    def __init__(self, storage: Storage, starter: Starter, max_upload_bytes: int):
        self._storage = storage
        self._starter = starter
        self._max_upload_bytes = max_upload_bytes
        self._expected: OrderedDict[tuple[UUID, UUID], ExpectedOutput] = OrderedDict()

    def job(self, started: StartedLease, ttl_seconds: float, callback: CallbackAddress | None = None) -> WorkerJob:
        lease, payload = started.lease, started.payload
        expected = self._remember(started)
        urls = self._sign(started, expected, ttl_seconds)
        return WorkerJob(
            dispatch_id=lease.dispatch_id,
            lease_token=lease.lease_token,
            lease_expires_at=lease.lease_expires_at,
            lease_ttl_seconds=ttl_seconds,
            tenant_id=lease.tenant_id,
            job_id=lease.job_id,
            effect_id=started.effect_id,
            kind=lease.kind,
            actor=started.actor,
            attempt=lease.attempts,
            provider=lease.provider,
            run_limit_seconds=lease.run_limit_seconds,
            wedges=lease.wedges,
            input_payload=payload_with_urls(lease.kind, payload, urls),
            input_file=(task_input(lease.kind, payload) or input_file(payload)) if urls.input_url else None,
            output_file=output_file(expected) if urls.output else None,
            input_url=urls.input_url,
            output_url=urls.output_url,
            output_headers=urls.output_headers,
            **({} if callback is None else {"callback": callback}),
        )

    def signed_urls(self, started: StartedLease, ttl_seconds: float) -> SignedUrls:
        return self._sign(started, ExpectedOutput.of(started), ttl_seconds)

    def _sign(self, started: StartedLease, expected: ExpectedOutput, ttl_seconds: float) -> SignedUrls:
        if not expected.is_engine:
            return self._sign_files(started)
        lease, seconds = started.lease, url_seconds(ttl_seconds)
        assets: dict[int, str] = {}
        primary: str | None = None
        try:
            for place, asset, path in stored_assets(started.payload):
                assets[place] = self._storage.presign_get(own_path(path, lease.tenant_id), seconds=seconds).url
                if primary is None and asset.get("is_primary_input"):
                    primary = assets[place]
            key = output_key(lease.tenant_id, lease.job_id, lease.lease_token, "", expected.extension)
            output = self._storage.presign_put(key, content_type=expected.mime_type, size=None, seconds=seconds)
        except InvalidRequest as refusal:
            raise Undeliverable(str(refusal)) from refusal
        return SignedUrls(assets, primary, output)

    def _sign_files(self, started: StartedLease) -> SignedUrls:
        """Signs URLs that may outlive the lease: a service with a queue of its own may read them late."""
        lease = started.lease
        # An admin may submit jobs of any kind, but not jobs for an actor.
        files = files_of(lease.kind, started.payload) if started.actor is not None else []
        seconds = url_seconds(max(lease.run_limit_seconds, SERVICE_SECONDS))
        try:
            urls = {
                file.path: self._storage.presign_get(own_path(file.path, lease.tenant_id), seconds=seconds).url
                for file in files
            }
        except InvalidRequest as refusal:
            raise Undeliverable(str(refusal)) from refusal
        return SignedUrls({}, next(iter(urls.values()), None), None, urls)

    def uploads(self, extended: LeaseExtension, token: UUID, outputs: Sequence[AnnouncedOutput]) -> list[Upload]:
        """Signed upload URLs of the announced outputs; the signature covers size and checksum."""
        seconds = url_seconds(extended.ttl_seconds)
        uploads = []
        for output in outputs:
            key = output_key(extended.tenant_id, extended.job_id, token, output.name, extension_of(output.name))
            signed = self._storage.presign_put(
                key, content_type=output.mime_type, size=output.size, seconds=seconds, sha256=output.sha256
            )
            uploads.append(Upload(name=output.name, method="PUT", url=signed.url, headers=dict(signed.headers)))
        return uploads

    def refuse_too_large(self, outputs: Sequence[AnnouncedOutput]) -> None:
        for place, output in enumerate(outputs):
            if output.size > self._max_upload_bytes:
                raise InvalidRequest.field(
                    f"outputs.{place}.size", f"The size must be at most {counted(self._max_upload_bytes, 'byte')}."
                )

    async def expected(self, report: LeaseReport, tenant_id: UUID, job_id: UUID) -> ExpectedOutput:
        """The expected output of a job. It is cached when the job is handed out. It is read again if another process
        handed out the job, or the entry was evicted.
        """
        found = self._expected.get((tenant_id, job_id))
        if found is not None:
            return found
        started = await self._starter.repeat(report.dispatch_id, report.token, report.worker_id)
        if started is None:
            raise NotFound("This worker has no such lease.")
        return self._remember(started)

    def _remember(self, started: StartedLease) -> ExpectedOutput:
        expected = self._expected[started.lease.tenant_id, started.lease.job_id] = ExpectedOutput.of(started)
        if len(self._expected) > MAX_REMEMBERED:
            self._expected.popitem(last=False)
        return expected


def url_seconds(ttl_seconds: float) -> int:
    return min(MAX_URL_SECONDS, max(1, math.ceil(ttl_seconds)))


def stored_assets(payload: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any], str]]:
    """The assets in storage: index in the payload, asset, storage path."""
    assets = payload.get("assets")
    for place, asset in enumerate(assets if isinstance(assets, list) else ()):
        # JSON objects are dicts, and a check for Mapping takes ten times as long.
        if isinstance(asset, dict) and isinstance(asset.get("path"), str):
            yield place, asset, asset["path"]


def own_path(path: str, tenant_id: UUID) -> str:
    """The path, if it belongs to the tenant. The control plane builds payloads; this check protects other tenants'
    files if it ever builds a wrong one.
    """
    if path.startswith("tenants/") and not path.startswith(f"tenants/{tenant_id}/"):
        raise InvalidRequest.field("path", "This path belongs to another tenant.")
    return path


def payload_with_urls(kind: str, payload: Mapping[str, Any], urls: SignedUrls) -> dict[str, Any]:
    """The payload with URLs, for every kind of job."""
    if urls.files:
        return addressed(kind, payload, urls.files)
    return with_urls(payload, urls.assets)


def with_urls(payload: Mapping[str, Any], urls: Mapping[int, str]) -> dict[str, Any]:
    """The payload with URLs instead of storage paths."""
    assets = payload.get("assets")
    if not isinstance(assets, list) or not urls:
        return dict(payload)
    shown = [_with_url(asset, urls[place]) if place in urls else asset for place, asset in enumerate(assets)]
    return {**payload, "assets": shown}


def _with_url(asset: Mapping[str, Any], url: str) -> dict[str, Any]:
    kept = {name: value for name, value in asset.items() if name not in ("path", "disk")}
    return {**kept, "download_url": url}


def fresh_inputs(payload: Mapping[str, Any], urls: Mapping[int, str]) -> list[Input]:
    return [
        Input(key=_text(asset.get("key")), placeholder=_text(asset.get("placeholder")), download_url=urls[place])
        for place, asset, _ in stored_assets(payload)
        # `assets` in the payload of a task is the user's own field and is not signed.
        if place in urls
    ]


def task_input(kind: str, payload: Mapping[str, Any]) -> InputFile | None:
    for file in files_of(kind, payload):
        return InputFile(name=file.name, mime_type=file.mime_type, content_hash=file.sha256)
    return None


def input_file(payload: Mapping[str, Any]) -> InputFile:
    primary = next((asset for _, asset, _ in stored_assets(payload) if asset.get("is_primary_input")), {})
    return InputFile(
        name=_text(payload.get("input_name")) or "input",
        mime_type=_text(payload.get("input_mime_type")) or "application/octet-stream",
        content_hash=_text(primary.get("content_hash")),
    )


def output_file(expected: ExpectedOutput) -> OutputFile:
    return OutputFile(name=f"output.{expected.extension}", extension=expected.extension, mime_type=expected.mime_type)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
