"""Requirements for every storage backend, tested with the local one and with a real S3 server."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx
import pytest

from callsheet.media.storage import SignedRequest, Storage
from callsheet.wire.errors import ContentMismatch, InvalidRequest, NotFound, RangeNotSatisfiable

MEBIBYTE = 1 << 20


async def pieces(content: bytes, size: int = 100_003) -> AsyncIterator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]


async def send(client: httpx.AsyncClient, signed: SignedRequest, body: bytes | None = None, **headers: str):
    headers = {**signed.headers, **headers}
    return await client.request(signed.method, signed.url, content=body, headers=headers)


def refused(response: httpx.Response) -> bool:
    return 400 <= response.status_code < 500


async def test_a_stored_object_is_read_back_unchanged(storage: Storage, folder: str) -> None:
    key, content = f"{folder}/Clip=1+2@3.mp4", b"moving pictures"
    stored = await storage.put(key, content, content_type="video/mp4")
    assert await storage.read(key, 100) == content
    info = await storage.head(key)
    assert info is not None
    assert (info.key, info.size, info.content_type, info.etag) == (key, len(content), "video/mp4", stored.etag)
    assert info.sha256 in (None, hashlib.sha256(content).hexdigest())
    assert abs((datetime.now(UTC) - info.modified_at).total_seconds()) < 60


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_object_may_be_empty(storage: Storage, folder: str, streamed: bool) -> None:
    key = f"{folder}/empty"
    stored = await storage.put(key, pieces(b"") if streamed else b"", content_type="text/plain")
    info = await storage.head(key)
    assert info is not None
    assert stored.size == info.size == 0
    assert await storage.read(key, 0) == b""
    assert [chunk async for chunk in storage.stream(key)] == []


@pytest.mark.parametrize("size", [3 * MEBIBYTE + 7, 20 * MEBIBYTE])
async def test_large_objects_stream_in_and_out(storage: Storage, folder: str, size: int) -> None:
    content = random.Random(size).randbytes(size)
    stored = await storage.put(f"{folder}/large", pieces(content), content_type="video/mp4")
    assert stored.size == size
    received = hashlib.sha256()
    async for chunk in storage.stream(f"{folder}/large"):
        received.update(chunk)
    assert received.digest() == hashlib.sha256(content).digest()


@pytest.mark.few_forms
@pytest.mark.parametrize("error", [ConnectionError, FileNotFoundError, InvalidRequest])
async def test_a_stream_that_fails_stores_nothing(storage: Storage, folder: str, error: type[Exception]) -> None:
    async def failing() -> AsyncIterator[bytes]:
        yield bytes(9 * MEBIBYTE)
        raise error("the sender left")

    with pytest.raises(error, match="the sender left"):
        await storage.put(f"{folder}/half", failing(), content_type="video/mp4")
    assert await storage.head(f"{folder}/half") is None


async def test_putting_again_replaces_bytes_and_type(storage: Storage, folder: str) -> None:
    key = f"{folder}/object"
    await storage.put(key, b"a longer first version", content_type="text/plain")
    await storage.put(key, b"second", content_type="image/png")
    info = await storage.head(key)
    assert info is not None
    assert (await storage.read(key, 100), info.size, info.content_type) == (b"second", 6, "image/png")


async def test_a_peek_returns_the_info_and_the_first_bytes_of_an_object(storage: Storage, folder: str) -> None:
    key = f"{folder}/object"
    assert await storage.peek(key, 10) is None
    for content in (b"", b"short", b"a longer one than is wanted"):
        await storage.put(key, content, content_type="image/png")
        found = await storage.peek(key, 10)
        assert found is not None
        info, beginning = found
        assert (info.size, info.content_type, beginning) == (len(content), "image/png", content[:10])
        assert info == await storage.head(key)


async def test_a_missing_object_is_not_found(storage: Storage, folder: str) -> None:
    missing = f"{folder}/missing"
    assert await storage.head(missing) is None
    with pytest.raises(NotFound):
        await storage.read(missing, 10)
    with pytest.raises(NotFound):
        await anext(aiter(storage.stream(missing)))
    with pytest.raises(NotFound):
        await storage.copy(missing, f"{folder}/target")


@pytest.mark.few_forms
@pytest.mark.parametrize("size", [0, 5, 9 * MEBIBYTE + 1])
async def test_the_checksum_of_an_object_is_that_of_its_bytes(storage: Storage, folder: str, size: int) -> None:
    content = random.Random(size).randbytes(size)
    assert await storage.sha256_of(f"{folder}/object") is None
    await storage.put(f"{folder}/object", content, content_type="video/mp4")
    assert await storage.sha256_of(f"{folder}/object") == hashlib.sha256(content).hexdigest()


async def test_an_object_larger_than_expected_is_not_read(storage: Storage, folder: str) -> None:
    await storage.put(f"{folder}/object", b"12345", content_type="text/plain")
    with pytest.raises(ContentMismatch):
        await storage.read(f"{folder}/object", 4)


async def test_deleting_an_object_twice_succeeds(storage: Storage, folder: str) -> None:
    await storage.put(f"{folder}/object", b"bytes", content_type="text/plain")
    await storage.delete(f"{folder}/object")
    assert await storage.head(f"{folder}/object") is None
    await storage.delete(f"{folder}/object")
    assert await storage.head(f"{folder}/object") is None


async def test_many_objects_are_deleted_in_one_call_and_others_stay(storage: Storage, folder: str) -> None:
    for name in ("a", "b", "c"):
        await storage.put(f"{folder}/{name}", b"bytes", content_type="text/plain")
    await storage.delete_many([f"{folder}/a", f"{folder}/missing", f"{folder}/c"])
    await storage.delete_many([])
    assert [entry.key async for entry in storage.list(folder)] == [f"{folder}/b"]


async def test_a_folder_lists_what_is_below_it_and_nothing_else(storage: Storage, folder: str) -> None:
    below = {f"{folder}/in/A", f"{folder}/in/a", f"{folder}/in/deep/b", f"{folder}/in/a/c"}
    for key in below | {f"{folder}/in", f"{folder}/inside", f"{folder}/other/in/d"}:
        await storage.put(key, key.encode(), content_type="text/plain")
    for spelling in (f"{folder}/in", f"{folder}/in/"):
        entries = [entry async for entry in storage.list(spelling)]
        assert {entry.key for entry in entries} == below
        assert len(entries) == len(below)
        assert all(entry.size == len(entry.key) for entry in entries)
    assert below < {entry.key async for entry in storage.list()}
    assert [entry async for entry in storage.list(f"{folder}/nothing")] == []


async def test_a_copy_does_not_depend_on_its_source(storage: Storage, folder: str) -> None:
    source, target = f"{folder}/source", f"{folder}/deep/target"
    await storage.put(source, b"the bytes", content_type="image/png")
    copied = await storage.copy(source, target)
    assert (copied.key, copied.size, copied.content_type) == (target, 9, "image/png")
    await storage.put(source, b"other", content_type="text/plain")
    await storage.delete(source)
    assert await storage.read(target, 100) == b"the bytes"


async def test_a_copy_returns_the_info_and_the_first_bytes(storage: Storage, folder: str) -> None:
    source, target = f"{folder}/source", f"{folder}/target"
    with pytest.raises(NotFound):
        await storage.copy_and_peek(source, target, 10)
    for content in (b"", b"short", b"a longer one than is wanted"):
        await storage.put(source, content, content_type="image/png")
        info, beginning = await storage.copy_and_peek(source, target, 10)
        assert (info.key, info.size, info.content_type, beginning) == (target, len(content), "image/png", content[:10])
        assert info == await storage.head(target)


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [(0, 3, b"012"), (3, None, b"3456789"), (4, 6, b"45"), (8, 100, b"89"), (9, None, b"9")],
)
async def test_a_range_of_an_object_can_be_read(
    storage: Storage, folder: str, start: int, end: int | None, expected: bytes
) -> None:
    await storage.put(f"{folder}/digits", b"0123456789", content_type="text/plain")
    assert b"".join([chunk async for chunk in storage.stream(f"{folder}/digits", start, end)]) == expected


async def test_a_range_beyond_the_end_is_refused(storage: Storage, folder: str) -> None:
    await storage.put(f"{folder}/digits", b"0123456789", content_type="text/plain")
    with pytest.raises(RangeNotSatisfiable) as refusal:
        await anext(aiter(storage.stream(f"{folder}/digits", 10)))
    assert refusal.value.size == 10


async def test_concurrent_overwrites_leave_one_whole_object(storage: Storage, folder: str) -> None:
    key = f"{folder}/contended"
    versions = {bytes([65 + n]) * (200_000 + n): f"text/x-{n}" for n in range(8)}
    await storage.put(key, next(iter(versions)), content_type="text/x-0")

    async def read_often() -> set[bytes]:
        return {await storage.read(key, MEBIBYTE) for _ in range(20)}

    seen, *_ = await asyncio.gather(
        read_often(), *(storage.put(key, pieces(body), content_type=kind) for body, kind in versions.items())
    )
    assert seen <= versions.keys()
    final, info = await storage.read(key, MEBIBYTE), await storage.head(key)
    assert info is not None
    assert (info.size, info.content_type) == (len(final), versions[final])


@pytest.mark.few_forms
@pytest.mark.parametrize(
    "key",
    [
        "",
        "/etc/passwd",
        "..",
        "../secret",
        "a/../../secret",
        "a/./b",
        "a//b",
        "a/",
        "a\x00b",
        "a\nb",
        "a\\b",
        "a b",
        "a/.hidden",
        "é",
        "\udc80",
        "a?b",
        "a%2e",
        "x" * 121,
        "/".join("a" * 33),
        "a/" * 512 + "b",
    ],
)
async def test_a_bad_key_is_refused_everywhere(storage: Storage, key: str) -> None:
    calls = [
        lambda: storage.put(key, b"", content_type="text/plain"),
        lambda: storage.head(key),
        lambda: storage.sha256_of(key),
        lambda: storage.read(key, 1),
        lambda: anext(aiter(storage.stream(key))),
        lambda: storage.delete(key),
        lambda: storage.delete_many([key]),
        lambda: storage.copy(key, "target"),
        lambda: storage.copy("source", key),
    ]
    for call in calls:
        with pytest.raises(InvalidRequest) as refusal:
            await call()
        assert refusal.value.errors[0].field == "key"
    for sign in (lambda: storage.presign_get(key), lambda: storage.presign_put(key, content_type="a/b", size=1)):
        with pytest.raises(InvalidRequest):
            sign()


@pytest.mark.few_forms
@pytest.mark.parametrize("content_type", ["", "video", "video/mp4\r\nx: y", "a/b\x00", "video/mp4; é=1"])
async def test_a_bad_content_type_is_refused(storage: Storage, folder: str, content_type: str) -> None:
    with pytest.raises(InvalidRequest):
        await storage.put(f"{folder}/object", b"", content_type=content_type)
    with pytest.raises(InvalidRequest):
        storage.presign_put(f"{folder}/object", content_type=content_type, size=1)
    assert await storage.head(f"{folder}/object") is None


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"size": -1}, "size"),
        ({"seconds": 0}, "seconds"),
        ({"seconds": 604_801}, "seconds"),
        ({"sha256": "A" * 64}, "sha256"),
    ],
)
def test_invalid_requests_are_not_signed(storage: Storage, changes: dict[str, object], field: str) -> None:
    arguments: dict[str, object] = {"content_type": "video/mp4", "size": 1, **changes}
    with pytest.raises(InvalidRequest) as refusal:
        storage.presign_put("object", **arguments)  # type: ignore[arg-type]
    assert refusal.value.errors[0].field == field


async def test_the_check_passes_and_leaves_nothing(storage: Storage) -> None:
    await storage.check()
    assert [entry.key async for entry in storage.list("callsheet-check")] == []


async def test_a_signed_get_reads_the_object(storage: Storage, folder: str, storage_client: httpx.AsyncClient) -> None:
    key = f"{folder}/Clip=1+2@3.mp4"
    await storage.put(key, b"0123456789", content_type="video/mp4")
    signed = storage.presign_get(key)
    assert 0 < (signed.expires_at - datetime.now(UTC)).total_seconds() <= 900
    whole = await send(storage_client, signed)
    assert (whole.status_code, whole.content) == (200, b"0123456789")
    assert whole.headers["content-type"] == "video/mp4"
    again = await send(storage_client, signed, **{"If-None-Match": whole.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("requested", "content_range", "content"),
    [
        ("bytes=2-4", "bytes 2-4/10", b"234"),
        ("bytes=7-", "bytes 7-9/10", b"789"),
        ("bytes=-3", "bytes 7-9/10", b"789"),
        ("bytes=8-100", "bytes 8-9/10", b"89"),
    ],
)
async def test_a_signed_get_returns_ranges(
    storage: Storage, folder: str, storage_client: httpx.AsyncClient, requested: str, content_range: str, content: bytes
) -> None:
    await storage.put(f"{folder}/clip", b"0123456789", content_type="video/mp4")
    response = await send(storage_client, storage.presign_get(f"{folder}/clip"), Range=requested)
    assert (response.status_code, response.headers["content-range"]) == (206, content_range)
    assert response.content == content


async def test_a_range_outside_the_object_is_a_416(
    storage: Storage, folder: str, storage_client: httpx.AsyncClient
) -> None:
    await storage.put(f"{folder}/clip", b"0123456789", content_type="video/mp4")
    response = await send(storage_client, storage.presign_get(f"{folder}/clip"), Range="bytes=10-")
    assert response.status_code == 416


async def test_a_signed_get_of_a_missing_object_returns_404(
    storage: Storage, folder: str, storage_client: httpx.AsyncClient
) -> None:
    assert (await send(storage_client, storage.presign_get(f"{folder}/missing"))).status_code == 404


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("clip.mp4", 'attachment; filename="clip.mp4"'),
        ("Überraschung 🎬.mp4", "filename*=UTF-8''%C3%9Cberraschung%20%F0%9F%8E%AC.mp4"),
        ('a"b\r\nx: y\x00/../c', 'attachment; filename="a_b__x: y__.._c"'),
    ],
)
async def test_a_download_gets_its_name(
    storage: Storage, folder: str, storage_client: httpx.AsyncClient, name: str, expected: str
) -> None:
    await storage.put(f"{folder}/clip", b"0123456789", content_type="video/mp4")
    response = await send(storage_client, storage.presign_get(f"{folder}/clip", download_name=name))
    assert (response.status_code, response.content) == (200, b"0123456789")
    assert expected in response.headers["content-disposition"]
    assert response.headers["content-disposition"].startswith("attachment")


async def test_a_signed_url_serves_the_type_it_was_signed_for(
    storage: Storage, folder: str, storage_client: httpx.AsyncClient
) -> None:
    """A worker may announce one type, upload under it, and report the file as another."""
    await storage.put(f"{folder}/picture", b"<script>alert(1)</script>", content_type="text/html")
    for name in (None, "a picture.png"):
        response = await send(
            storage_client, storage.presign_get(f"{folder}/picture", content_type="image/png", download_name=name)
        )
        assert (response.status_code, response.headers["content-type"]) == (200, "image/png")
        assert ("attachment" in response.headers.get("content-disposition", "")) is (name is not None)
    with pytest.raises(InvalidRequest):
        storage.presign_get(f"{folder}/picture", content_type="image/png\r\nset-cookie: a=b")


async def test_a_signed_put_stores_the_body(storage: Storage, folder: str, storage_client: httpx.AsyncClient) -> None:
    key, body = f"{folder}/Upload=1+2@3.mp4", random.Random(1).randbytes(3 * MEBIBYTE + 1)
    signed = storage.presign_put(key, content_type="video/mp4", size=len(body))
    response = await send(storage_client, signed, body)
    info = await storage.head(key)
    assert info is not None
    assert (response.status_code, response.headers["etag"]) == (200, info.etag)
    assert (info.size, info.content_type) == (len(body), "video/mp4")
    assert await storage.read(key, len(body)) == body


async def test_a_signed_put_with_the_right_checksum_is_stored(
    storage: Storage, folder: str, storage_client: httpx.AsyncClient
) -> None:
    sha256 = hashlib.sha256(b"right").hexdigest()
    signed = storage.presign_put(f"{folder}/object", content_type="video/mp4", size=5, sha256=sha256)
    assert (await send(storage_client, signed, b"right")).status_code == 200
    assert await storage.read(f"{folder}/object", 5) == b"right"


async def test_bytes_of_another_checksum_are_refused(
    storage: Storage, folder: str, storage_client: httpx.AsyncClient
) -> None:
    sha256 = hashlib.sha256(b"right").hexdigest()
    signed = storage.presign_put(f"{folder}/object", content_type="video/mp4", size=5, sha256=sha256)
    assert refused(await send(storage_client, signed, b"wrong"))
    assert await storage.head(f"{folder}/object") is None


@pytest.mark.few_forms
@pytest.mark.parametrize("content_type", ["text/html", "video/mp4; charset=utf-8", ""])
async def test_another_content_type_is_refused(
    storage: Storage, folder: str, storage_client: httpx.AsyncClient, content_type: str
) -> None:
    signed = storage.presign_put(f"{folder}/object", content_type="video/mp4", size=5)
    assert refused(await send(storage_client, signed, b"12345", **{"Content-Type": content_type}))
    assert await storage.head(f"{folder}/object") is None


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_longer_body_is_refused(
    storage: Storage, folder: str, storage_client: httpx.AsyncClient, chunked: bool
) -> None:
    await storage.put(f"{folder}/object", b"what was there", content_type="video/mp4")
    signed = storage.presign_put(f"{folder}/object", content_type="video/mp4", size=2 * MEBIBYTE)
    body = bytes(2 * MEBIBYTE + 1)
    response = await storage_client.put(signed.url, content=pieces(body) if chunked else body, headers=signed.headers)
    assert refused(response)
    assert await storage.read(f"{folder}/object", 100) == b"what was there"


@pytest.mark.few_forms
@pytest.mark.parametrize("size", [0, 1, MEBIBYTE + 1])
async def test_a_put_signed_without_a_length_stores_a_body_of_any_length(
    storage: Storage, folder: str, storage_client: httpx.AsyncClient, size: int
) -> None:
    key, body = f"{folder}/object", random.Random(size).randbytes(size)
    signed = storage.presign_put(key, content_type="video/mp4", size=None)
    assert (await send(storage_client, signed, body)).status_code == 200
    assert await storage.read(key, size) == body
    # Everything else is bound as ever.
    assert refused(await send(storage_client, signed, body, **{"Content-Type": "text/html"}))


async def test_a_signature_for_reading_does_not_allow_writing(
    storage: Storage, folder: str, storage_client: httpx.AsyncClient
) -> None:
    await storage.put(f"{folder}/object", b"12345", content_type="video/mp4")
    read = storage.presign_get(f"{folder}/object")
    write = storage.presign_put(f"{folder}/object", content_type="video/mp4", size=5)
    assert refused(await storage_client.put(read.url, content=b"other", headers=write.headers))
    assert refused(await storage_client.get(write.url))
    assert refused(await storage_client.get(write.url, headers=write.headers))
    assert refused(await storage_client.delete(read.url))
    assert refused(await storage_client.delete(write.url, headers=write.headers))
    assert await storage.read(f"{folder}/object", 5) == b"12345"


def tampered(url: str) -> dict[str, str]:
    """The URL with its path changed, with each parameter changed, extended or left out, and with one parameter more."""
    parts = urlsplit(url)
    pairs = parse_qsl(parts.query, keep_blank_values=True)

    def with_query(changed: list[tuple[str, str]]) -> str:
        return parts._replace(query=urlencode(changed)).geturl()

    changed = {"path": parts._replace(path=f"{parts.path}x").geturl(), "added": with_query([*pairs, ("added", "1")])}
    for index, (name, value) in enumerate(pairs):
        other = (name, ("1" if value[:1] != "1" else "2") + value[1:])
        changed[f"{name} changed"] = with_query([*pairs[:index], other, *pairs[index + 1 :]])
        changed[f"{name} extended"] = with_query([*pairs[:index], (name, value + "0"), *pairs[index + 1 :]])
        changed[f"{name} left out"] = with_query([*pairs[:index], *pairs[index + 1 :]])
    return changed


async def test_a_changed_get_is_refused(storage: Storage, folder: str, storage_client: httpx.AsyncClient) -> None:
    await storage.put(f"{folder}/object", b"12345", content_type="video/mp4")
    await storage.put(f"{folder}/objectx", b"12345", content_type="video/mp4")
    signed = storage.presign_get(f"{folder}/object", download_name="clip.mp4", content_type="video/mp4")
    assert (await storage_client.get(signed.url)).status_code == 200
    accepted = [what for what, url in tampered(signed.url).items() if not refused(await storage_client.get(url))]
    assert accepted == []


async def test_a_changed_put_is_refused(storage: Storage, folder: str, storage_client: httpx.AsyncClient) -> None:
    sha256 = hashlib.sha256(b"12345").hexdigest()
    signed = storage.presign_put(f"{folder}/object", content_type="video/mp4", size=5, sha256=sha256)
    accepted = [
        what
        for what, url in tampered(signed.url).items()
        if not refused(await storage_client.put(url, content=b"12345", headers=signed.headers))
    ]
    assert accepted == []
    assert [entry.key async for entry in storage.list(folder)] == []
    assert (await send(storage_client, signed, b"12345")).status_code == 200


async def test_an_expired_url_is_refused(storage: Storage, folder: str, storage_client: httpx.AsyncClient) -> None:
    await storage.put(f"{folder}/object", b"12345", content_type="video/mp4")
    read = storage.presign_get(f"{folder}/object", seconds=1)
    write = storage.presign_put(f"{folder}/object", content_type="video/mp4", size=5, seconds=1)
    # S3 counts whole seconds of the wall clock, so the test has to wait here.
    last = max(read.expires_at, write.expires_at)
    await asyncio.sleep((last - datetime.now(UTC)).total_seconds() + 1.1)
    assert refused(await send(storage_client, read))
    assert refused(await send(storage_client, write, b"other"))
    assert await storage.read(f"{folder}/object", 5) == b"12345"


PART = 5 * MEBIBYTE


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


async def test_parts_that_arrive_in_any_order_and_twice_become_the_object(
    storage: Storage, folder: str, storage_client: httpx.AsyncClient
) -> None:
    key, parts = f"{folder}/Clip.mp4", [random.Random(number).randbytes(size) for number, size in ((1, PART), (2, 99))]
    upload_id = await storage.parts.start(key, content_type="video/mp4")
    assert await storage.parts.arrived(key, upload_id) == []
    signed = [
        storage.parts.presign(key, upload_id, number, size=len(part), sha256=digest(part))
        for number, part in enumerate(parts, start=1)
    ]
    for number in (1, 0, 1):
        assert (await send(storage_client, signed[number], parts[number])).status_code == 200
    arrived = await storage.parts.arrived(key, upload_id)
    assert sorted((part.number, part.size) for part in arrived) == [(1, PART), (2, 99)]
    assert await storage.head(key) is None
    checksums = [digest(part) for part in parts]
    joins = (storage.parts.join(key, upload_id, checksums, content_type="video/mp4") for _ in range(2))
    await asyncio.gather(*joins, return_exceptions=True)
    info = await storage.head(key)
    assert info is not None
    assert (info.size, info.content_type) == (PART + 99, "video/mp4")
    assert await storage.sha256_of(key) == digest(b"".join(parts))
    # The URLs are still valid, and change nothing.
    await send(storage_client, signed[1], parts[1])
    assert await storage.sha256_of(key) == digest(b"".join(parts))
    await storage.parts.abort(key)
    assert {entry.key async for entry in storage.list(folder)} == {key}


async def test_a_part_accepts_only_its_own_bytes(
    storage: Storage, folder: str, storage_client: httpx.AsyncClient
) -> None:
    key, part = f"{folder}/object", b"the second part"
    upload_id = await storage.parts.start(key, content_type="video/mp4")
    signed = storage.parts.presign(key, upload_id, 2, size=len(part), sha256=digest(part))
    bad = (part[:-1], part + b"!", part[:-1] + b"!", b"")
    assert all([refused(await send(storage_client, signed, body)) for body in bad])
    # The number of the part is signed, too.
    for url in (signed.url.replace("partNumber=2", "partNumber=1"), signed.url.replace("/00002", "/00001")):
        if url != signed.url:
            assert refused(await storage_client.put(url, content=part, headers=signed.headers))
    assert await storage.parts.arrived(key, upload_id) == []
    assert (await send(storage_client, signed, part)).status_code == 200
    await storage.parts.abort(key)
    assert not await storage.parts.arrived(key, upload_id)
    assert await storage.head(key) is None
    await storage.parts.abort(key)


async def test_parts_that_are_not_there_cannot_be_joined(storage: Storage, folder: str) -> None:
    upload_id = await storage.parts.start(f"{folder}/object", content_type="video/mp4")
    with pytest.raises(NotFound):
        await storage.parts.join(f"{folder}/object", upload_id, [digest(b"")], content_type="video/mp4")
    await storage.parts.abort(f"{folder}/object")
    with pytest.raises(NotFound):
        await storage.parts.join(f"{folder}/object", upload_id, [digest(b"")], content_type="video/mp4")
