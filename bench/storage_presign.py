"""Signed URLs per second: pure computation, no server. The peer is the S3 client of botocore (boto3's)."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import botocore.session
from botocore.config import Config
from pydantic import SecretStr

from bench.results import Result
from callsheet.media.storage import LocalStorage, Storage
from callsheet.media.storage.s3 import S3Storage
from callsheet.settings import S3Settings

name = "storage.presign"
KEY = "tenants/0193a1d2-7c1e-7d3a-9a55-3f1b2c4d5e6f/ai-jobs/0193a1d2-8e2f-7b1c-8c44-1a2b3c4d5e6f/output.mp4"
TYPE, SIZE, SECONDS = "video/mp4", 12_345_678, 900
ROUNDS = 10
CALLS_BETWEEN_CHECKS = 20
S3 = S3Settings(
    bucket="callsheet", access_key_id="AKIAEXAMPLEEXAMPLE00", secret_access_key=SecretStr("not a real secret at all")
)

Sign = Callable[[], object]


async def run(seconds: float) -> list[Result]:
    client = _botocore_client()
    parameters = {"Bucket": S3.bucket, "Key": KEY}
    described = {**parameters, "ContentType": TYPE, "ContentLength": SIZE}
    peers: dict[str, Sign] = {
        "get": lambda: client.generate_presigned_url("get_object", parameters, SECONDS),
        "put": lambda: client.generate_presigned_url("put_object", described, SECONDS),
    }
    local = LocalStorage(
        Path("never-written-to"),
        public_url="https://callsheet.example.com",
        secret=b"0" * 32,
        url_seconds=SECONDS,
        max_upload_bytes=SIZE,
    )
    s3 = S3Storage(S3, url_seconds=SECONDS)
    try:
        ours = {f"local.{method}": sign for method, sign in _signers(local).items()}
        ours |= {f"s3.{method}": sign for method, sign in _signers(s3).items()}
        rates = _take_turns({**ours, **peers}, seconds)
    finally:
        await local.close()
        await s3.close()
    return [
        Result(name=f"{name}.{which}", value=rates[which], unit="addresses/s", peer=rates[which.rpartition(".")[2]])
        for which in ours
    ]


def _signers(storage: Storage) -> dict[str, Sign]:
    return {
        "get": lambda: storage.presign_get(KEY),
        "put": lambda: storage.presign_put(KEY, content_type=TYPE, size=SIZE),
    }


def _botocore_client() -> Any:
    session = botocore.session.Session()
    assert S3.secret_access_key is not None
    return session.create_client(
        "s3",
        region_name=S3.region,
        aws_access_key_id=S3.access_key_id,
        aws_secret_access_key=S3.secret_access_key.get_secret_value(),
        config=Config(signature_version="s3v4", s3={"addressing_style": "path"}),
    )


def _take_turns(signers: dict[str, Sign], seconds: float) -> dict[str, float]:
    """Calls per second of CPU time, so that other programs have no effect."""
    calls = dict.fromkeys(signers, 0)
    spent = dict.fromkeys(signers, 0.0)
    slice_seconds = seconds / (ROUNDS * len(signers))
    for _ in range(ROUNDS):
        for which, sign in signers.items():
            started = time.process_time()
            while (elapsed := time.process_time() - started) < slice_seconds:
                for _ in range(CALLS_BETWEEN_CHECKS):
                    sign()
                calls[which] += CALLS_BETWEEN_CHECKS
            spent[which] += elapsed
    return {which: calls[which] / spent[which] for which in signers}
