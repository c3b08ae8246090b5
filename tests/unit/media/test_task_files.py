"""Files that a task reads: stored as paths, handed out as signed URLs, and never taken from what a user says."""

from __future__ import annotations

from typing import Any

from callsheet.fleet.protocol.deliveries import fresh_inputs
from callsheet.media.task_files import TaskFile, addressed, files_of, with_files, without_files

FILE = TaskFile("id", "tenants/t/runs/r/1.png", "1.png", "image/png", None, [("params", "images", 0), ("cover",)])
PAYLOAD: dict[str, Any] = {"cover": "{{parent_image_path}}", "params": {"images": ["{{parent_image_path}}", "other"]}}


def test_a_url_is_at_every_place_of_the_file_when_the_task_is_leased() -> None:
    stored = with_files(PAYLOAD, [FILE])
    assert files_of("pipeline", stored) == [FILE]
    shown = addressed("pipeline", stored, {FILE.path: "https://signed"})
    assert shown == {"cover": "https://signed", "params": {"images": ["https://signed", "other"]}}
    assert without_files("replay", stored) == PAYLOAD


def test_task_files_in_the_payload_of_a_user_are_not_read_as_files() -> None:
    payload = {"task_files": [{"path": "tenants/t/somebody/secret.png"}]}
    assert files_of("task", payload) == []
    assert without_files("task", payload) == payload
    assert with_files(payload, []) == {}


def test_assets_in_the_payload_of_a_task_get_no_urls() -> None:
    assert fresh_inputs({"assets": [{"key": "a", "path": "tenants/t/a.png"}]}, {}) == []
