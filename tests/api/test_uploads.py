"""Uploads: directly to storage, bound to their declaration, checked at the object, hidden from other users."""

from __future__ import annotations

import asyncio
import hashlib
import re
import struct
import zlib
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.toolbox.ids import uuid7
from tests.support.http.media_api import CLIP, IMAGE, MediaApi, declared
from tests.support.http.responses import assert_refused

HASH = hashlib.sha256(CLIP).hexdigest()


@pytest.fixture
async def media_api(stored_plane: ControlPlane) -> AsyncIterator[MediaApi]:
    """On local storage, then on S3."""
    async with MediaApi.opened(stored_plane) as media_api:
        yield media_api


@pytest.fixture
async def local_media_api(plane: ControlPlane) -> AsyncIterator[MediaApi]:
    """Uploads and videos of one user, on local storage."""
    async with MediaApi.opened(plane) as media_api:
        yield media_api


@pytest.mark.parametrize("pool", ["pool_1", "pool_2"])
async def test_bytes_go_straight_to_storage_and_come_back_from_a_video(stored_plane: ControlPlane, pool: str) -> None:
    async with MediaApi.opened(stored_plane, pool) as media_api:
        response = await media_api.create(sha256=HASH)
        assert response.status_code == 201
        created = response.json()
        assert created["file"] | {"status": "pending", "purpose": "upload", "size": len(CLIP)} == created["file"]
        assert (created["file"]["url"], created["file"]["job_id"]) == (None, None)
        assert created["upload"]["method"] == "PUT"
        assert (await media_api.send(created)).status_code == 200
        confirmed = await media_api.confirm(created["file"])
        assert confirmed.status_code == 200
        file = confirmed.json()
        assert (file["status"], file["sha256"], file["expires_at"]) == ("ready", HASH, None)
        video = (await media_api.ask("POST", "/api/videos", {"original_file_id": file["id"]})).json()
        assert (video["status"], video["title"]) == ("uploaded", "clip.mp4")
        for url in (file["url"], video["original_file_url"]):
            fetched = await media_api.jobs_api.client.get(url)
            assert (fetched.status_code, fetched.content) == (200, CLIP)
            assert fetched.headers["content-type"] == "video/mp4"


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("name", "shown", "segment"),
    [
        ("Übung 1/2 🎬.MP4", "Übung 1_2 🎬.MP4", "Ubung-1-2.mp4"),
        ("../../etc/passwd", "_.._etc_passwd", "etc-passwd.mp4"),
        ("..", "file", "file.mp4"),
        ("日本語", "日本語", "file.mp4"),
        ("a" * 200, "a" * 200, "a" * 60 + ".mp4"),
        ("\u202egpj.exe", "_gpj.exe", "gpj.mp4"),
        ('"><script>.webm', "_><script>.webm", "script.webm"),
        ("archive.tar.gz", "archive.tar.gz", "archive.tar.mp4"),
    ],
)
async def test_a_hostile_name_is_harmless_in_storage(
    local_media_api: MediaApi, name: str, shown: str, segment: str
) -> None:
    file = await local_media_api.uploaded(name=name)
    assert file["name"] == shown
    path = f"tenants/{local_media_api.tenant_id}/uploads/{file['id']}/{segment}"
    assert await local_media_api.paths() == {path}
    assert (await local_media_api.confirm(file)).status_code == 200


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("content", "mime_type", "stored"),
    [
        (IMAGE, "image/png", "image/png"),
        (b"ID3\x03\x00" + bytes(100), "audio/mpeg", "audio/mpeg"),
        (CLIP, "Video/MP4; codecs=avc1", "video/mp4"),
        (b"<?xml version='1.0'?><svg/>", "image/svg+xml", "image/svg+xml"),
        (CLIP, "video/x-unheard-of", "video/x-unheard-of"),
        # An MP4 without images is audio.
        (CLIP, "audio/mp4", "audio/mp4"),
    ],
)
async def test_images_and_sound_are_uploaded_the_same_way(
    local_media_api: MediaApi, content: bytes, mime_type: str, stored: str
) -> None:
    file = await local_media_api.uploaded(content, mime_type=mime_type)
    response = await local_media_api.confirm(file)
    assert (response.status_code, response.json()["mime_type"]) == (200, stored)


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"size": 5_368_709_121}, "size"),
        ({"size": 0}, "size"),
        ({"size": -1}, "size"),
        ({"size": 2**60}, "size"),
        ({"size": 1.5}, "size"),
        ({"mime_type": "text/html"}, "mime_type"),
        ({"mime_type": "application/octet-stream"}, "mime_type"),
        ({"mime_type": "video"}, "mime_type"),
        ({"mime_type": "video/mp4\r\nx: y"}, "mime_type"),
        ({"mime_type": "video/\0"}, "mime_type"),
        ({"mime_type": ""}, "mime_type"),
        ({"mime_type": "audio/x-mpegurl"}, "mime_type"),
        ({"name": ""}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"name": "a\0b"}, "name"),
        ({"name": "\ud800"}, "name"),
        ({"sha256": "A" * 64}, "sha256"),
        ({"sha256": "0" * 63}, "sha256"),
        ({"surprise": 1}, "surprise"),
    ],
    ids=str,
)
async def test_a_bad_upload_names_the_field_and_writes_nothing(
    local_media_api: MediaApi, change: dict[str, Any], field: str
) -> None:
    response = await local_media_api.ask("POST", "/api/videos/uploads", declared(CLIP) | change)
    assert_refused(response, 422, "invalid_request", field)
    assert await local_media_api.file_rows() == []


async def test_all_exceeded_limits_are_named_at_once(local_media_api: MediaApi) -> None:
    response = await local_media_api.create(size=2**50, mime_type="text/html")
    problem = assert_refused(response, 422, "invalid_request", "mime_type", "size")
    assert "video/*, image/*, audio/*" in problem["detail"]


async def test_the_limits_come_from_the_settings(strict_plane: ControlPlane) -> None:
    maximum = strict_plane.settings.storage.max_upload_bytes
    async with MediaApi.opened(strict_plane) as media_api:
        assert_refused(await media_api.create(size=maximum + 1, mime_type="image/png"), 422, "invalid_request", "size")
        for mime_type, status in (("image/png", 201), ("audio/x", 201), ("image/jpeg", 422), ("video/webm", 422)):
            assert (await media_api.create(size=maximum, mime_type=mime_type)).status_code == status


async def test_the_number_of_pending_uploads_of_a_user_has_a_limit_also_for_concurrent_requests(
    strict_plane: ControlPlane,
) -> None:
    async with MediaApi.opened(strict_plane) as media_api:
        responses = await asyncio.gather(*(media_api.create() for _ in range(10)))
        assert sorted(response.status_code for response in responses) == [201] * 3 + [429] * 7
        refused = next(response for response in responses if response.status_code == 429)
        assert assert_refused(refused, 429, "too_many_pending_uploads")["limit"] == 3
        assert len(await media_api.file_rows()) == 3
        # Neither a colleague's nor what was confirmed or deleted counts.
        assert (await (await media_api.colleague()).create()).status_code == 201
        first, second, _ = (response.json() for response in responses if response.status_code == 201)
        await media_api.send(first)
        assert (await media_api.confirm(first["file"])).status_code == 200
        assert (await media_api.ask("DELETE", f"/api/files/{second['file']['id']}")).status_code == 204
        assert [(await media_api.create()).status_code for _ in range(3)] == [201, 201, 429]


async def test_a_missing_upload_cannot_be_confirmed_and_the_response_says_what_to_do(media_api: MediaApi) -> None:
    created = (await media_api.create()).json()
    problem = assert_refused(await media_api.confirm(created["file"]), 422, "content_mismatch", "file_id")
    assert "Send the bytes to `upload.url`" in problem["detail"]
    await media_api.send(created)
    assert (await media_api.confirm(created["file"])).status_code == 200


async def test_confirming_again_returns_the_same_file(media_api: MediaApi) -> None:
    file = await media_api.uploaded()
    first, again = (await media_api.confirm(file)).json(), (await media_api.confirm(file)).json()
    addresses = {"url", "url_expires_at"}
    assert {name: first[name] for name in first.keys() - addresses} == {
        name: again[name] for name in again.keys() - addresses
    }


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("content", "declaration", "field"),
    [
        (CLIP[:-1], {}, "size"),
        (CLIP + b"x", {}, "size"),
        (CLIP[:-1] + b"x", {"sha256": HASH}, "sha256"),
        (b"<!DOCTYPE html><html>".ljust(len(CLIP)), {}, "mime_type"),
        (b"%PDF-1.7".ljust(len(CLIP)), {}, "mime_type"),
        (IMAGE.ljust(len(CLIP)), {}, "mime_type"),
        (b"MZ".ljust(len(CLIP)), {}, "mime_type"),
        (b"PK\x03\x04".ljust(len(CLIP)), {}, "mime_type"),
        (b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n".ljust(len(CLIP), b"\0"), {}, "mime_type"),
        (b"ffconcat version 1.0\nfile '/etc/passwd'\n".ljust(len(CLIP)), {}, "mime_type"),
        (b"v=0\nc=IN IP4 10.0.0.1\nm=video 5000 RTP/AVP 96\n".ljust(len(CLIP)), {}, "mime_type"),
    ],
    ids=["shorter", "longer", "hash", "html", "pdf", "png", "program", "zip", "hls", "ffconcat", "sdp"],
)
async def test_an_object_that_differs_from_its_declaration_is_refused_and_may_be_replaced(
    media_api: MediaApi, content: bytes, declaration: dict[str, Any], field: str
) -> None:
    created = (await media_api.create(**declaration)).json()
    [row] = await media_api.file_rows()
    # Written directly to storage: the signed URL would have refused most of it.
    await media_api.plane.rooms.storage.put(row["path"], content, content_type="video/mp4")
    problem = assert_refused(await media_api.confirm(created["file"]), 422, "content_mismatch", field)
    assert "Upload the right bytes to the same URL" in problem["detail"]
    assert (await media_api.file_rows())[0]["status"] == "pending"
    assert (await media_api.send(created)).status_code == 200
    assert (await media_api.confirm(created["file"])).status_code == 200


@pytest.mark.parametrize("mime_type", ["image/png", "image/jpeg", "video/mp4", "audio/mpeg", "image/svg+xml"])
@pytest.mark.parametrize(
    ("content", "seen"), [(b"This is a text. " * 20, "text"), (bytes(400), "zeros only")], ids=["text", "zeros"]
)
async def test_bytes_without_media_are_refused_and_the_file_is_named_as_the_user_named_it(
    local_media_api: MediaApi, content: bytes, seen: str, mime_type: str
) -> None:
    file = await local_media_api.uploaded(content, name="Mein Bild (1).final", mime_type=mime_type)
    problem = assert_refused(await local_media_api.confirm(file), 422, "content_mismatch", "mime_type")
    assert problem["detail"].startswith(
        f"The file 'Mein Bild (1).final' is not what was declared: the declared mime_type is {mime_type}, but the "
        f"bytes look like {seen}. Upload the right bytes"
    )
    made = await local_media_api.ask("POST", "/api/videos", {"original_file_id": file["id"]})
    assert_refused(made, 422, "content_mismatch", "mime_type")
    assert (await local_media_api.file_rows())[0]["status"] == "pending"


async def test_a_session_description_far_behind_other_bytes_is_refused(local_media_api: MediaApi) -> None:
    """FFmpeg looks for its line in the first megabyte."""
    hidden = b"\x80" * 900_000 + b"\nc=IN IP4 10.0.0.1\nm=video 5000 RTP/AVP 96\n"
    file = await local_media_api.uploaded(hidden)
    problem = assert_refused(await local_media_api.confirm(file), 422, "content_mismatch", "mime_type")
    assert "the bytes look like a session description (SDP)" in problem["detail"]


async def test_an_object_of_another_type_is_refused(media_api: MediaApi) -> None:
    created = (await media_api.create()).json()
    [row] = await media_api.file_rows()
    await media_api.plane.rooms.storage.put(row["path"], CLIP, content_type="video/webm")
    assert_refused(await media_api.confirm(created["file"]), 422, "content_mismatch", "mime_type")


@pytest.mark.parametrize("sha256", [None, HASH], ids=["undeclared", "declared"])
async def test_a_confirmed_upload_cannot_be_replaced(media_api: MediaApi, sha256: str | None) -> None:
    """The signed URL is still good after the confirmation, and nothing that it stores is ever served."""
    other = CLIP[::-1]
    created = (await media_api.create(sha256=sha256)).json()
    assert (await media_api.send(created, other)).is_success is (sha256 is None)
    assert (await media_api.send(created)).is_success
    file = (await media_api.confirm(created["file"])).json()
    assert file["sha256"] in ((HASH,) if sha256 else (HASH, None))
    for bytes_sent in (other, CLIP):
        sent = await media_api.send(created, bytes_sent)
        if media_api.plane.settings.storage.backend == "local":
            assert_refused(sent, 409, "wrong_state")
        assert (await media_api.confirm(created["file"])).json()["sha256"] == file["sha256"]
        assert (await media_api.jobs_api.client.get(file["url"])).content == CLIP


@pytest.mark.parametrize(
    ("width", "height", "is_taken"), [(30_000, 30_000, False), (10_001, 10_000, False), (10_000, 10_000, True)]
)
async def test_an_image_with_too_many_pixels_is_refused_by_its_header(
    media_api: MediaApi, width: int, height: int, is_taken: bool
) -> None:
    """A few bytes may make a decoder allocate gigabytes. Nothing here decodes them."""
    data = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    bomb = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + data + struct.pack(">I", zlib.crc32(data))
    created = (await media_api.create(bomb, mime_type="image/png", name="bomb.png")).json()
    await media_api.send(created, bomb)
    response = await media_api.confirm(created["file"])
    if is_taken:
        assert response.status_code == 200
        return
    problem = assert_refused(response, 422, "invalid_request", "dimensions")
    assert f"{width} x {height} = {width * height} pixels. At most 100000000 are allowed" in problem["detail"]
    assert (await media_api.file_rows())[0]["status"] == "pending"


async def test_an_upload_may_be_repeated_until_it_is_confirmed(media_api: MediaApi) -> None:
    """The answer to the first PUT may be lost on the way; and a confirmation that was refused asks for other bytes."""
    created = (await media_api.create()).json()
    await media_api.send(created, b"%PDF-1.7".ljust(len(CLIP)))
    assert_refused(await media_api.confirm(created["file"]), 422, "content_mismatch", "mime_type")
    for _ in range(2):
        assert (await media_api.send(created)).is_success
    file = (await media_api.confirm(created["file"])).json()
    assert (await media_api.jobs_api.client.get(file["url"])).content == CLIP
    paths = [entry.key async for entry in media_api.plane.rooms.storage.list(f"tenants/{media_api.tenant_id}/uploads")]
    assert len(paths) == 1, "neither copies that were refused nor the uploaded object stay"


async def test_a_file_has_a_fresh_url_and_may_be_saved_under_its_name(media_api: MediaApi) -> None:
    file = await media_api.uploaded(name="Übung.mp4")
    assert (await media_api.ask("GET", f"/api/files/{file['id']}")).json() == file
    await media_api.confirm(file)
    shown = (await media_api.ask("GET", f"/api/files/{file['id']}")).json()
    assert "content-disposition" not in (await media_api.jobs_api.client.get(shown["url"])).headers
    saved = (await media_api.ask("GET", f"/api/files/{file['id']}?download=true")).json()
    assert "%C3%9Cbung.mp4" in (await media_api.jobs_api.client.get(saved["url"])).headers["content-disposition"]


async def test_a_file_that_a_browser_could_run_is_served_as_an_attachment(media_api: MediaApi) -> None:
    drawing = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
    file = await media_api.uploaded(drawing, name="drawing.svg", mime_type="image/svg+xml")
    url = (await media_api.confirm(file)).json()["url"]
    served = await media_api.jobs_api.client.get(url)
    assert (served.status_code, served.content) == (200, drawing)
    assert served.headers["content-disposition"] == 'attachment; filename="drawing.svg"'


async def test_g6_another_user_and_another_tenant_find_nothing(media_api: MediaApi) -> None:
    file = await media_api.uploaded()
    for other in (await media_api.colleague(), await media_api.stranger("pool_1"), await media_api.stranger("pool_2")):
        assert_refused(await other.confirm(file), 404, "not_found")
        for method in ("GET", "DELETE"):
            assert_refused(await other.ask(method, f"/api/files/{file['id']}"), 404, "not_found")
        made = await other.ask("POST", "/api/videos", {"original_file_id": file["id"]})
        assert_refused(made, 422, "invalid_request", "original_file_id")
    assert (await media_api.file_rows())[0]["status"] == "pending"
    assert (await media_api.confirm(file)).status_code == 200


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_an_unknown_file_is_not_found(local_media_api: MediaApi, method: str) -> None:
    assert_refused(await local_media_api.ask(method, f"/api/files/{uuid7()}"), 404, "not_found")
    assert_refused(await local_media_api.ask(method, "/api/files/x"), 422, "invalid_request", "path.file_id")
    assert_refused(await local_media_api.confirm({"id": uuid7()}), 404, "not_found")


async def test_every_route_of_uploads_requires_authentication(local_media_api: MediaApi) -> None:
    file = await local_media_api.uploaded()
    for method, path in (
        ("POST", "/api/videos/uploads"),
        ("POST", f"/api/videos/uploads/{file['id']}/confirm"),
        ("GET", f"/api/videos/uploads/{file['id']}/parts"),
        ("POST", f"/api/videos/uploads/{file['id']}/parts"),
        ("GET", f"/api/files/{file['id']}"),
        ("DELETE", f"/api/files/{file['id']}"),
        ("GET", "/api/videos"),
        ("POST", "/api/videos"),
    ):
        assert_refused(await local_media_api.jobs_api.client.request(method, path), 401, "not_authenticated")


async def test_a_large_file_with_a_resume_key_is_uploaded_in_parts(media_api: MediaApi) -> None:
    size = 64 * 2**20 + 1
    large = {"size": size, "resume_key": "clip.mp4 2026-11-19"}
    created = (await media_api.create(**large)).json()
    assert created["upload"] is None
    assert created["parts"] == {"part_bytes": 16 * 2**20, "count": 5, "arrived": []}
    assert (await media_api.create(**large)).json()["file"]["id"] == created["file"]["id"]
    assert (await media_api.create(size=size)).json()["parts"] is None, "without a resume key"
    assert (await media_api.create(resume_key="small")).json()["parts"] is None
    parts = f"/api/videos/uploads/{created['file']['id']}/parts"
    last = {"number": 5, "sha256": hashlib.sha256(b"!").hexdigest()}
    signed = (await media_api.ask("POST", parts, {"parts": [last]})).json()["parts"]
    assert [(part["number"], part["size"]) for part in signed] == [(5, 1)]
    request = signed[0]["upload"]
    sent = await media_api.jobs_api.client.put(request["url"], content=b"!", headers=request["headers"])
    assert sent.status_code == 200
    assert (await media_api.ask("GET", parts)).json()["arrived"] == [last]
    problem = assert_refused(await media_api.confirm(created["file"]), 422, "content_mismatch", "parts")
    assert "These parts are missing: 1, 2, 3, 4." in problem["detail"]
    for wanted in ([], [last | {"number": 6}], [last, last], [last | {"sha256": "0" * 64}], [last | {"number": 0}]):
        assert (await media_api.ask("POST", parts, {"parts": wanted})).status_code == 422
    for other in (await media_api.colleague(), await media_api.stranger()):
        assert_refused(await other.ask("GET", parts), 404, "not_found")
        assert_refused(await other.ask("POST", parts, {"parts": [last]}), 404, "not_found")
        assert (await other.create(**large)).json()["file"]["id"] != created["file"]["id"]


@pytest.mark.parametrize("confirmed", [False, True])
async def test_deleting_a_file_deletes_its_object(media_api: MediaApi, confirmed: bool) -> None:
    file = await media_api.uploaded()
    if confirmed:
        await media_api.confirm(file)
    assert len(await media_api.paths()) == 1
    assert (await media_api.ask("DELETE", f"/api/files/{file['id']}")).status_code == 204
    assert await media_api.paths() == set()
    assert_refused(await media_api.ask("GET", f"/api/files/{file['id']}"), 404, "not_found")
    assert_refused(await media_api.ask("DELETE", f"/api/files/{file['id']}"), 404, "not_found")
    assert_refused(await media_api.confirm(file), 404, "not_found")
    made = await media_api.ask("POST", "/api/videos", {"original_file_id": file["id"]})
    assert_refused(made, 422, "invalid_request", "original_file_id")


async def test_a_file_that_a_job_reads_or_a_video_shows_is_not_deleted(media_api: MediaApi) -> None:
    file = await media_api.uploaded(IMAGE, mime_type="image/png")
    await media_api.confirm(file)
    await media_api.jobs_api.core.submit(media_api.member, input_file_ids=(UUID(file["id"]),))
    assert_refused(await media_api.ask("DELETE", f"/api/files/{file['id']}"), 409, "in_use")
    await media_api.jobs_api.core.complete(await media_api.jobs_api.start())
    assert (await media_api.ask("DELETE", f"/api/files/{file['id']}")).status_code == 204
    video = await media_api.video()
    problem = assert_refused(await media_api.ask("DELETE", f"/api/files/{video['original_file_id']}"), 409, "in_use")
    assert re.search("Delete the video", problem["detail"])


async def test_limits_of_uploads_can_be_read_before_an_upload(media_api: MediaApi) -> None:
    response = await media_api.ask("GET", "/api/videos/uploads/limits")
    settings = media_api.plane.settings
    assert response.json() == {
        "accepted_types": list(settings.media.allowed_types),
        "max_bytes": settings.storage.max_upload_bytes,
        "max_image_pixels": settings.media.max_image_pixels,
        "max_pending": settings.media.pending_uploads_per_user,
        "parts_above_bytes": settings.storage.parts_above_bytes,
        "url_seconds": settings.storage.url_seconds,
    }


async def test_an_upload_that_broke_is_sent_again_to_the_same_url(media_api: MediaApi) -> None:
    created = (await media_api.create()).json()

    async def broken() -> AsyncIterator[bytes]:
        yield CLIP[:100]
        raise OSError("the network went away")

    upload = created["upload"]
    with pytest.raises((httpx.HTTPError, OSError)):
        await media_api.jobs_api.client.put(upload["url"], content=broken(), headers=upload["headers"])
    assert_refused(await media_api.confirm(created["file"]), 422, "content_mismatch", "file_id")
    assert (await media_api.send(created)).status_code == 200
    assert (await media_api.confirm(created["file"])).json()["status"] == "ready"
