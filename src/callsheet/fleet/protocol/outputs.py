"""Outputs of jobs: their keys, their inspection before tokens are consumed, and the deletion of accepted uploads.

A user does not pay for work that was not delivered: if an object is missing, empty or not as declared, the completion
is refused, unless the settings say to warn only. Bytes that do not match their declared type only cause a warning, and
the file gets the type of its bytes.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter as Tally
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID, uuid4, uuid5

from prometheus_client import Counter
from prometheus_client.registry import Collector

from callsheet.jobs.lease.outcomes import StartedLease
from callsheet.media.sniffing import SNIFFED_BYTES, actual_type, contradiction
from callsheet.media.storage import Storage
from callsheet.media.storage.port import discard
from callsheet.toolbox.file_names import extension_of as extension_of_type
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop
from callsheet.toolbox.media_types import EXTENSIONS
from callsheet.wire.errors import FieldProblem, InvalidRequest, NotFound
from callsheet.wire.plurals import counted
from callsheet.wire.worker.errors import EmptyOutput
from callsheet.wire.worker.protocol import AnnouncedOutput, CompleteRequest, DeliveredOutput

# The number of objects that S3 deletes with one request.
MAX_AT_ONCE = 1000
# Maximum number of uploads that wait for deletion. The sweep of the job's folder deletes further uploads.
MAX_WAITING = 100_000


class AcceptedUploads(Loop):
    """Deletes uploads whose output was accepted: the accepted output is a copy. Uploads of one second are deleted
    together, and no worker waits for this. After a crash, the sweep of the job's folder deletes the remaining
    uploads.
    """

    name = "accepted_uploads"
    interval_seconds = 1.0

    def __init__(self, storage: Storage) -> None:
        super().__init__()
        self._storage = storage
        self._keys: list[str] = []

    def add(self, keys: Iterable[str]) -> None:
        if len(self._keys) < MAX_WAITING:
            self._keys.extend(keys)

    async def tick(self, now: datetime) -> bool:
        batch, self._keys = self._keys[:MAX_AT_ONCE], self._keys[MAX_AT_ONCE:]
        await discard(self._storage, batch)
        return bool(self._keys)

    async def stop(self) -> None:
        await super().stop()
        while await self.tick(self._clock.now()):
            pass


log = get_logger(__name__)

INSPECTIONS_AT_ONCE = 16
DEFAULT_EXTENSION = "bin"
DEFAULT_MIME_TYPE = "application/octet-stream"
_EXTENSION = re.compile(r"[a-z0-9]{1,10}")
# First bytes of the most frequent outputs. A call of puremagic takes 0.25 ms, a fifth of the whole request.
_PLAIN = (
    ("image", 0, b"\x89PNG\r\n\x1a\n"),
    ("image", 0, b"\xff\xd8\xff"),
    ("image", 0, b"GIF8"),
    ("image", 8, b"WEBP"),
    ("video", 4, b"ftyp"),
    ("video", 0, b"\x1a\x45\xdf\xa3"),
    ("audio", 8, b"WAVE"),
    ("audio", 0, b"fLaC"),
    ("audio", 0, b"OggS"),
)


@dataclass(frozen=True, slots=True)
class ExpectedOutput:
    """The facts about the output in a job's payload. A payload never changes, so these facts can be cached."""

    # The job runs in an engine and must deliver files. Other jobs may complete without files.
    is_engine: bool
    extension: str = DEFAULT_EXTENSION
    mime_type: str = DEFAULT_MIME_TYPE

    @classmethod
    def of(cls, started: StartedLease) -> ExpectedOutput:
        payload = started.payload
        # The payload of other kinds is the user's own, and must not be treated as built by the catalog.
        if (started.lease.kind != "effect" and started.effect_id is None) or "workflow" not in payload:
            return cls(is_engine=False)
        extension = payload.get("output_extension")
        mime_type = payload.get("output_mime_type")
        return cls(
            is_engine=True,
            extension=extension if isinstance(extension, str) and _EXTENSION.fullmatch(extension) else "mp4",
            mime_type=mime_type if isinstance(mime_type, str) and mime_type else "video/mp4",
        )


@dataclass(frozen=True, slots=True)
class OutputClaim:
    """One object that a completion declares."""

    field: str
    key: str
    name: str
    mime_type: str
    size: int
    sha256: str | None
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class InspectedOutput:
    """The object in storage that belongs to a claim."""

    claim: OutputClaim
    # The new storage path, name and type of the object.
    path: str
    name: str
    mime_type: str
    size: int
    sha256: str | None
    # Why the claim is wrong; and what is unusual in a correct claim.
    problem: str | None
    warning: str | None = None


def output_key(tenant_id: UUID, job_id: UUID, lease_token: UUID, name: str, extension: str) -> str:
    """The storage key of an output. Each lease has its own keys, so a worker that lost its lease can never overwrite
    an accepted output. The output at `output_url` has the name "".
    """
    return f"tenants/{tenant_id}/ai-jobs/{job_id}/output-{uuid5(lease_token, name)}.{extension}"


def accepted_key(key: str, extension: str) -> str:
    """The key of the accepted copy, in the same folder. No URL is ever signed for writing to it."""
    return f"{key.rpartition('/')[0]}/output-{uuid4()}.{extension}"


def extension_of(name: str) -> str:
    extension = name.rpartition(".")[2].lower() if "." in name else ""
    return extension if _EXTENSION.fullmatch(extension) else DEFAULT_EXTENSION


def extension_for(mime_type: str, expected: ExpectedOutput) -> str:
    """File extension of the output at `output_url`, whose actual type may differ from the expected one."""
    if mime_type in (expected.mime_type, DEFAULT_MIME_TYPE):
        return expected.extension
    return extension_of_type(mime_type) or expected.extension


def name_for(claim: OutputClaim, mime_type: str) -> str:
    """The output at `output_url` is named after its actual type; other outputs keep the worker's names."""
    if claim.field != "output" or mime_type == claim.mime_type:
        return claim.name
    return f"output.{EXTENSIONS.get(mime_type, DEFAULT_EXTENSION)}"


def refuse_repeated_names(names: Sequence[str]) -> None:
    repeated = [name for name, times in Tally(names).items() if times > 1]
    if repeated:
        raise InvalidRequest.field("outputs", f"Two outputs have the name {repeated[0]!r}. Give each its own name.")


def claims_of(
    request: CompleteRequest, expected: ExpectedOutput, tenant_id: UUID, job_id: UUID, lease_token: UUID
) -> list[OutputClaim]:
    """All outputs that the completion declares; the first is the job's main output."""

    def claim(field: str, output: DeliveredOutput, name: str, extension: str, shown: str) -> OutputClaim:
        key = output_key(tenant_id, job_id, lease_token, name, extension)
        return OutputClaim(field, key, shown, output.mime_type, output.size, output.sha256, output.metadata or {})

    named = request.outputs or []
    refuse_repeated_names([output.name for output in named])
    claims = []
    if request.output is not None:
        shown = f"output.{extension_for(request.output.mime_type, expected)}"
        claims.append(claim("output", request.output, "", expected.extension, shown))
    for place, output in enumerate(named):
        claims.append(claim(f"outputs.{place}", output, output.name, extension_of(output.name), output.name))
    return claims


def judge(claim: OutputClaim, size: int | None, sha256: str | None) -> str | None:
    """The reason why the stored object does not match the claim; None if it matches."""
    if size is None:
        return "The output was not uploaded. Upload it and report again."
    if size == claim.size == 0:
        return f"The output {claim.name!r} is empty. Report a failure of the type empty_output instead."
    if size == 0:
        return "The uploaded output is empty. Upload it again and report again."
    if size != claim.size:
        has = f"The uploaded output has {counted(size, 'byte')}, but its declared size is {claim.size}."
        return f"{has} Upload it again and report again."
    if claim.sha256 is not None and sha256 != claim.sha256:
        return f"The uploaded output has the SHA-256 {sha256}, but {claim.sha256} was declared."
    return None


def oddity(mime_type: str, beginning: bytes) -> str | None:
    """A warning if the first bytes clearly contradict the declared type."""
    family = mime_type.partition("/")[0]
    if any(kind == family and beginning.startswith(mark, offset) for kind, offset, mark in _PLAIN):
        return None
    other = contradiction(mime_type, beginning)
    return f"The output looks like {other}, but {mime_type} was declared." if other else None


class OutputInspection:
    def __init__(
        self,
        storage: Storage,
        uploads: AcceptedUploads,
        mode: Literal["enforce", "warn"],
    ):
        self._storage = storage
        self._uploads = uploads
        self.enforced = mode == "enforce"
        self._refused = Counter(
            "callsheet_outputs_refused", "Outputs that were missing or not what was declared.", registry=None
        )
        self._warned = Counter("callsheet_output_warnings", "Outputs that were accepted with a warning.", registry=None)

    @property
    def metrics(self) -> tuple[Collector, ...]:
        return self._refused, self._warned

    def refuse_empty(self, outputs: Sequence[AnnouncedOutput]) -> None:
        """Before the upload: another upload of an empty file would not help."""
        for place, output in enumerate(outputs):
            if output.size == 0 and self.enforced:
                raise EmptyOutput(f"outputs.{place}.size", output.name)

    async def inspect(self, claims: Sequence[OutputClaim]) -> list[InspectedOutput]:
        """Copies the uploads to keys that no signed URL can write to, and checks the copies, so that a checked object
        cannot be replaced. Concurrency is limited, because a run may have a thousand outputs."""
        if len(claims) == 1:  # Most runs have one output, which needs no task.
            return [await self._inspect(claims[0])]
        gate = asyncio.Semaphore(INSPECTIONS_AT_ONCE)

        async def inspect(claim: OutputClaim) -> InspectedOutput:
            async with gate:
                return await self._inspect(claim)

        return list(await asyncio.gather(*map(inspect, claims)))

    async def discard_copies(self, inspected: Sequence[InspectedOutput]) -> None:
        """Deletes the copies of refused outputs; the uploads stay."""
        await discard(self._storage, [each.path for each in inspected if each.path != each.claim.key])

    def discard_uploads(self, inspected: Sequence[InspectedOutput]) -> None:
        """Schedules the deletion of the uploads of accepted outputs. The copies stay."""
        self._uploads.add(each.claim.key for each in inspected if each.path != each.claim.key)

    def report(self, dispatch_id: int, inspected: Sequence[InspectedOutput]) -> list[FieldProblem]:
        """Counts and logs problems and warnings. Returns the problems for which the completion is refused."""
        problems = [FieldProblem(each.claim.field, each.problem) for each in inspected if each.problem]
        warnings = [each.warning for each in inspected if each.warning]
        if problems and self.enforced:
            self._refused.inc(len(problems))
            log.warning("output.refused", dispatch_id=dispatch_id, problems=[problem.reason for problem in problems])
            return problems
        if problems or warnings:
            self._warned.inc(len(problems) + len(warnings))
            reasons = [*(problem.reason for problem in problems), *warnings]
            log.warning("output.odd", dispatch_id=dispatch_id, warnings=reasons)
        return []

    async def _inspect(self, claim: OutputClaim) -> InspectedOutput:
        path = accepted_key(claim.key, extension_of(claim.name))
        try:
            info, beginning = await self._storage.copy_and_peek(claim.key, path, SNIFFED_BYTES)
        except NotFound:
            problem = judge(claim, None, None)
            return InspectedOutput(claim, claim.key, claim.name, claim.mime_type, claim.size, claim.sha256, problem)
        sha256 = info.sha256
        if sha256 is None and claim.sha256 is not None and info.size == claim.size:
            # This reads the whole object, so the cheap checks come first.
            sha256 = await self._storage.sha256_of(path)
        problem = judge(claim, info.size, sha256)
        warning = None if problem else oddity(claim.mime_type, beginning)
        mime_type = actual_type(claim.mime_type, beginning)
        name = name_for(claim, mime_type)
        return InspectedOutput(claim, path, name, mime_type, info.size, sha256 or claim.sha256, problem, warning)
