"""Requirements for the S3 backend only: lengths, credentials, URLs, error messages."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from callsheet.media.storage import Storage, open_storage
from callsheet.settings import SettingsError
from callsheet.wire.errors import Unavailable
from tests.conformance.conftest import SECRET, s3_settings
from tests.support.media.seaweedfs import BUCKET, DOMAIN, S3Server


@pytest.fixture
def no_aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine on which the AWS chain finds nothing."""
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


async def test_a_shorter_body_is_refused(s3_storage: Storage, folder: str, storage_client: httpx.AsyncClient) -> None:
    signed = s3_storage.presign_put(f"{folder}/object", content_type="video/mp4", size=5)
    response = await storage_client.put(signed.url, content=b"1234", headers=signed.headers)
    assert response.status_code == 403
    assert await s3_storage.head(f"{folder}/object") is None


async def test_a_checksum_that_was_signed_must_be_sent(
    s3_storage: Storage, folder: str, storage_client: httpx.AsyncClient
) -> None:
    signed = s3_storage.presign_put(f"{folder}/object", content_type="video/mp4", size=5, sha256="0" * 64)
    response = await storage_client.put(signed.url, content=b"12345", headers={"Content-Type": "video/mp4"})
    assert response.status_code == 403
    assert await s3_storage.head(f"{folder}/object") is None


async def test_signed_urls_use_the_public_endpoint(
    s3_server: S3Server, folder: str, storage_client: httpx.AsyncClient
) -> None:
    public = s3_server.url.replace("127.0.0.1", "localhost")
    storage = open_storage(s3_settings(s3_server, public_endpoint_url=public), SECRET, None)
    write = storage.presign_put(f"{folder}/object", content_type="video/mp4", size=5)
    for signed in (write, storage.presign_get(f"{folder}/object"), storage.presign_get("a", download_name="b")):
        assert signed.url.startswith(f"{public}/{BUCKET}/")
    assert (await storage_client.put(write.url, content=b"12345", headers=write.headers)).status_code == 200
    assert (await storage_client.get(storage.presign_get(f"{folder}/object").url)).content == b"12345"
    assert await storage.read(f"{folder}/object", 5) == b"12345"
    await storage.close()


async def test_the_bucket_may_be_in_the_host_name(
    s3_server: S3Server, folder: str, storage_client: httpx.AsyncClient
) -> None:
    port = urlsplit(s3_server.url).port
    settings = s3_settings(s3_server, endpoint_url=f"http://{DOMAIN}:{port}", addressing="virtual")
    storage = open_storage(settings, SECRET, None)
    host, key = f"{BUCKET}.{DOMAIN}:{port}", f"{folder}/object"

    async def send(url: str, method: str = "GET", **options: object) -> httpx.Response:
        assert url.startswith(f"http://{host}/{folder}")
        headers = {**options.pop("headers", {}), "Host": host}  # type: ignore[dict-item]
        return await storage_client.request(
            method, url.replace(f"http://{host}", s3_server.url), headers=headers, **options
        )  # type: ignore[arg-type]

    write = storage.presign_put(key, content_type="video/mp4", size=5)
    assert (await send(write.url, "PUT", content=b"12345", headers=write.headers)).status_code == 200
    assert (await send(storage.presign_get(key).url)).content == b"12345"
    assert (await send(storage.presign_get(key, download_name="clip.mp4").url)).content == b"12345"
    await storage.close()


async def test_credentials_come_from_the_aws_chain_when_none_are_set(
    s3_server: S3Server, folder: str, storage_client: httpx.AsyncClient, no_aws: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "credentials").write_text(
        f"[default]\naws_access_key_id={s3_server.access_key_id}\naws_secret_access_key={s3_server.secret_access_key}\n"
    )
    storage = open_storage(s3_settings(s3_server, access_key_id=None, secret_access_key=None), SECRET, None)
    await storage.check()
    await storage.put(f"{folder}/object", b"12345", content_type="video/mp4")
    assert (await storage_client.get(storage.presign_get(f"{folder}/object").url)).content == b"12345"
    await storage.close()


def test_missing_credentials_stop_the_start_with_an_explanation(
    s3_server: S3Server, no_aws: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SettingsError, match=r"storage\.s3\.access_key_id is not set"):
        open_storage(s3_settings(s3_server, access_key_id=None, secret_access_key=None), SECRET, None)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"secret_access_key": "wrong"}, "refused Callsheet's credentials"),
        ({"bucket": "no-such-bucket"}, "no-such-bucket: The bucket does not exist"),
        ({"endpoint_url": "http://127.0.0.1:1"}, "http://127.0.0.1:1, bucket callsheet-tests: .* cannot be used"),
    ],
)
async def test_the_check_says_what_is_wrong(s3_server: S3Server, changes: dict[str, object], sentence: str) -> None:
    storage = open_storage(s3_settings(s3_server, **changes), SECRET, None)
    with pytest.raises(Unavailable, match=sentence):
        await storage.check()
    await storage.close()


async def test_a_sweep_of_s3_does_nothing(s3_storage: Storage) -> None:
    assert await s3_storage.sweep(datetime.now(UTC)) == 0


def test_only_the_s3_backend_loads_its_libraries() -> None:
    script = (
        "import sys; from callsheet.media.storage import open_storage; from callsheet.settings import Settings;"
        "open_storage(Settings(), b'secret', None);"
        "print([name for name in ('botocore', 'obstore') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
