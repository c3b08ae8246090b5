"""Presigned S3 URLs (Signature Version 4), made without a network call."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote, urlsplit

import obstore
from botocore.auth import S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials
from obstore.store import S3Store

from callsheet.media.storage.s3_credentials import CredentialSource
from callsheet.settings import S3Settings

if TYPE_CHECKING:
    from obstore.store import S3Config


def endpoint_of(settings: S3Settings, *, public: bool = False) -> str:
    """The URL for requests. With virtual addressing the bucket is part of the host."""
    given = settings.public_endpoint_url if public else None
    suffix = ".cn" if settings.region.startswith("cn-") else ""
    given = given or settings.endpoint_url or f"https://s3.{settings.region}.amazonaws.com{suffix}"
    given = given.rstrip("/")
    if settings.addressing == "path":
        return given
    parts = urlsplit(given)
    return parts._replace(netloc=f"{settings.bucket}.{parts.netloc}").geturl()


def store_of(settings: S3Settings, credentials: ReadOnlyCredentials) -> S3Store:
    """For signing only: what readers reach, with keys that do not change."""
    config: S3Config = {
        "endpoint": endpoint_of(settings, public=True),
        "region": settings.region,
        "virtual_hosted_style_request": settings.addressing == "virtual",
        "access_key_id": credentials.access_key or "",
        "secret_access_key": credentials.secret_key or "",
    }
    if credentials.token:
        config["session_token"] = credentials.token
    return S3Store(settings.bucket, config=config, client_options={"allow_http": True})


class S3Signer:
    """obstore signs in 10 µs but cannot bind headers or names of downloads; botocore's signer can, in 60 µs.

    A poll hands out mostly plain reads, so each does what it is good at. (boto3's own presigning takes 300 µs.)
    """

    def __init__(self, settings: S3Settings, credentials: CredentialSource) -> None:
        self._settings = settings
        self._credentials = credentials
        endpoint = endpoint_of(settings, public=True)
        self._base = f"{endpoint}/{settings.bucket}/" if settings.addressing == "path" else f"{endpoint}/"
        self._signed_for = credentials.current()
        self._store = store_of(settings, self._signed_for)

    def get(self, key: str, seconds: int) -> str:
        credentials = self._credentials.current()
        if credentials != self._signed_for:
            self._signed_for, self._store = credentials, store_of(self._settings, credentials)
        return obstore.sign(self._store, "GET", key, timedelta(seconds=seconds))

    def get_as(self, key: str, seconds: int, response_headers: Mapping[str, str]) -> str:
        """`response_headers`: headers of the response, by the names of their parameters."""
        return self._sign("GET", key, seconds, {}, response_headers)

    def put(self, key: str, seconds: int, headers: Mapping[str, str], size: int | None) -> str:
        length = {} if size is None else {"Content-Length": str(size)}
        return self._sign("PUT", key, seconds, {**headers, **length}, {})

    def put_part(self, key: str, seconds: int, headers: Mapping[str, str], size: int, part: Mapping[str, str]) -> str:
        """`part`: the parameters that name the upload and the part."""
        return self._sign("PUT", key, seconds, {**headers, "Content-Length": str(size)}, part)

    def _sign(
        self,
        method: Literal["GET", "PUT"],
        key: str,
        seconds: int,
        headers: dict[str, str],
        parameters: Mapping[str, str],
    ) -> str:
        request = AWSRequest(method, self._base + quote(key), headers, params=parameters)
        S3SigV4QueryAuth(self._credentials.current(), "s3", self._settings.region, seconds).add_auth(request)
        return str(request.url)


def checksum_header(sha256: str) -> dict[str, str]:
    """The header that makes S3 refuse a body with another checksum."""
    return {"x-amz-checksum-sha256": as_base64(sha256)}


def as_base64(sha256: str) -> str:
    return base64.b64encode(bytes.fromhex(sha256)).decode()
