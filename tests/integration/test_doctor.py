"""`callsheet doctor` checks every part and prints what to do; only problems that must be corrected make it fail."""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import asyncpg
import pytest
from pydantic import SecretStr

from callsheet.media.storage.s3 import S3Storage
from callsheet.operate.installation import local_storage
from callsheet.operate.installation.bucket_cors import browser_origins, cors_rule, refused_origins
from callsheet.operate.installation.bucket_rights import parts_findings
from callsheet.operate.installation.examination import examine
from callsheet.plumbing.database.databases import Databases
from callsheet.providers.replicate.config import ReplicateConfig
from callsheet.settings import S3Settings, Settings
from callsheet.settings.findings import SettingsFinding, clock_finding
from callsheet.wire.worker.protocol import PollRequest, ReportedDisk
from tests.support.database.installation import changed
from tests.support.http.fleet_api import bearer, join, registry
from tests.support.jobs.core import Core, Member
from tests.support.media.media_harness import open_media_harness
from tests.support.media.seaweedfs import S3Server
from tests.support.programs.commands import Callsheet

CLOSED_URL = "http://127.0.0.1:1"
# The response of ComfyUI 0.7.0.
SYSTEM_STATS = {
    "system": {
        "os": "linux",
        "ram_total": 25274793984,
        "ram_free": 24183951360,
        "comfyui_version": "0.7.0",
        "required_frontend_version": "1.35.9",
        "python_version": "3.11.7 (main, May  9 2026, 07:35:25) [GCC 12.2.0]",
        "pytorch_version": "2.13.0+cpu",
        "embedded_python": False,
        "argv": ["main.py", "--cpu", "--listen", "127.0.0.1", "--port", "8188"],
    },
    "devices": [
        {
            "name": "cpu",
            "type": "cpu",
            "index": None,
            "vram_total": 25274793984,
            "vram_free": 24183951360,
            "torch_vram_total": 25274793984,
            "torch_vram_free": 24183951360,
        }
    ],
}


@pytest.fixture
def settings(shared_settings: Settings, shared_databases: Databases, tmp_path: Path) -> Settings:
    """Databases that are empty and only looked at, and a data directory of the test's own."""
    home = tmp_path / "home"
    home.mkdir(0o700)
    shutil.copy2(shared_settings.home / "secret_key", home)
    return shared_settings.model_copy(update={"home": home})


class Quiet(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving(handler: type[Quiet]) -> Iterator[str]:
    """The URL of a server that responds by this handler."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def engine(response: object, status: int = 200) -> Iterator[str]:
    class Handler(Quiet):
        def do_GET(self) -> None:
            body = json.dumps(response).encode()
            self.send_response(status if self.path == "/system_stats" else 404)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with serving(Handler) as url:
        yield url


async def findings(settings: Settings, engine_url: str = CLOSED_URL) -> dict[str, SettingsFinding]:
    found = await examine(changed(settings, engine={"url": engine_url}))
    return {finding.part: finding for finding in found}


def command_for(settings: Settings, directory: Path, engine_url: str | None) -> Callsheet:
    assert settings.database.dsn is not None
    dsn = settings.database.dsn.get_secret_value()
    engine = {} if engine_url is None else {"ENGINE__URL": engine_url}
    return Callsheet(directory, HOME=str(settings.home), DATABASE__DSN=dsn, **engine)


async def test_doctor_succeeds_if_every_check_passes(settings: Settings, tmp_path: Path) -> None:
    with engine(SYSTEM_STATS) as url:
        # The one that pool_2 was sealed with, given the way several control planes share it.
        secret = (settings.home / "secret_key").read_text()
        doctor = command_for(settings, tmp_path, url).having(SECRET_KEY=secret)
        shown = doctor.succeed("doctor", "--json").json
    assert [(finding["part"], finding["status"]) for finding in shown] == [
        ("secrets", "ok"),
        ("disk", "ok"),
        ("database", "ok"),
        ("failover", "ok"),
        ("clock", "ok"),
        ("storage", "ok"),
        ("engine", "ok"),
        ("providers", "ok"),
    ]
    messages = {finding["part"]: finding["message"] for finding in shown}
    assert messages["engine"] == f"ComfyUI 0.7.0 at {url}."
    assert messages["database"].startswith("PostgreSQL 1")
    assert messages["database"].endswith("(by DSN), 2 pools.")


@pytest.mark.thorough
def test_the_option_json_prints_only_json(tmp_path: Path) -> None:
    # In a process of its own: in this one the logs are set up already. The call of the engine is logged.
    ended = Callsheet(tmp_path, ENGINE__URL=CLOSED_URL).run_process("doctor", "--worker", "--json")
    assert (ended.code, ended.err) == (1, "")
    assert {finding["part"]: finding["status"] for finding in ended.json}["engine"] == "problem"


@pytest.mark.thorough
async def test_a_disk_that_fills_up_is_a_warning_and_below_the_reserve_a_problem(settings: Settings) -> None:
    plenty = (await findings(settings))["disk"]
    assert (plenty.status, f"are free at {settings.home}/storage." in plenty.message) == ("ok", True)
    # No disk has this much free.
    low = changed(settings, disk={"reserve_bytes": 0, "warning_bytes": 2**60})
    warned = (await findings(low))["disk"]
    assert warned.status == "warning"
    assert "Below 0.0 GiB, new uploads and new jobs are refused." in warned.message
    refusing = changed(settings, disk={"reserve_bytes": 2**59, "warning_bytes": 2**60})
    found = (await findings(refusing))["disk"]
    assert (found.status, "are refused with 507" in found.message) == ("problem", True)
    assert "CALLSHEET_MEDIA__RETENTION_DAYS" in found.advice


async def test_a_worker_whose_disk_is_almost_full_is_a_warning(
    settings: Settings, shared_databases: Databases, core: Core
) -> None:
    room = registry(core.databases, core.room.leases)
    await core.add_workflow("any")
    worker = await join(room, "gpu-1", "any")
    disk = PollRequest(disk=ReportedDisk(free_bytes=2**20, size_bytes=2**40))
    room.poll_reports.record(await room.authentication.of(bearer(worker.token)), disk)
    await room.poll_reports.tick(datetime.now(UTC))
    assert "workers" not in await findings(settings)
    found = (await findings(changed(settings, disk={"reserve_bytes": 2**21, "warning_bytes": 2**21})))["workers"]
    assert found.status == "warning"
    assert "The worker gpu-1 has 0.0 GiB of 1024.0 GiB left on its disk." in found.message
    assert "callsheet workers drain gpu-1" in found.advice


async def test_a_healthy_installation_is_called_healthy(settings: Settings, tmp_path: Path) -> None:
    # No engine is set, as in a demo: most control planes have no engine beside them.
    secret = (settings.home / "secret_key").read_text()
    shown = command_for(settings, tmp_path, None).having(SECRET_KEY=secret).succeed("doctor").out.splitlines()
    assert shown[-1] == "Everything is healthy."
    assert [line for line in shown if line.startswith(("warning", "problem"))] == []
    named = command_for(settings, tmp_path, CLOSED_URL).having(SECRET_KEY=secret).succeed("doctor").out.splitlines()
    assert named[-1] == "Found 1 warning. The lines with → say what to do."


@pytest.mark.thorough
async def test_an_engine_that_is_down_is_a_warning_with_advice_and_no_failure(
    settings: Settings, tmp_path: Path
) -> None:
    shown = command_for(settings, tmp_path, CLOSED_URL).succeed("doctor").out
    _, found, rest = shown.partition("warning  engine ")
    [line, advice] = (found + rest).splitlines()[:2]
    assert line.startswith(f"warning  engine    No ComfyUI responds at {CLOSED_URL} (")
    assert advice.strip().startswith("→ Only a machine that renders needs ComfyUI. ")


@pytest.mark.thorough
async def test_an_unsafe_combination_of_settings_is_a_warning_with_advice_and_no_failure(
    settings: Settings, tmp_path: Path
) -> None:
    assert "settings" not in await findings(settings)
    doctor = command_for(settings, tmp_path, CLOSED_URL).having(SERVER__PUBLIC_URL="https://callsheet.example.com")
    found = [each for each in doctor.succeed("doctor", "--json").json if each["part"] == "settings"]
    assert {each["status"] for each in found} == {"warning"}
    assert {"CALLSHEET_SERVER__TRUSTED_PROXIES", "CALLSHEET_SERVER__METRICS_TOKEN"} <= {
        word.rstrip(".").partition("=")[0] for each in found for word in each["advice"].split()
    }


@pytest.mark.thorough
async def test_a_provider_that_could_not_call_back_is_a_warning(settings: Settings) -> None:
    known = changed(settings, providers={"replicate": ReplicateConfig(token=SecretStr("r8_secret"))})
    found = (await findings(known))["providers"]
    assert found.status == "warning"
    assert f"Replicate cannot call back to {settings.public_url}" in found.message
    assert "r8_secret" not in found.message + found.advice
    public = changed(known, server={"public_url": "https://callsheet.example.com"})
    assert (await findings(public))["providers"].status == "ok"


async def test_a_database_that_cannot_be_reached_fails_with_advice(settings: Settings, tmp_path: Path) -> None:
    away = command_for(settings, tmp_path, CLOSED_URL).having(DATABASE__DSN="postgresql://user:hidden@127.0.0.1:1/name")
    ended = away.run("doctor")
    assert ended.code == 1
    [line] = [line for line in ended.out.splitlines() if line.startswith("problem")]
    assert "database" in line
    assert "Check that PostgreSQL is running there, and that the URL is right." in line
    assert "hidden" not in ended.out + ended.err


@pytest.mark.thorough
@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("response", "status"),
    [(SYSTEM_STATS, 500), ("text", 200), ([], 200), ({"system": []}, 200), ({"other": {}}, 200)],
)
async def test_another_server_at_the_url_of_the_engine_is_a_warning(
    settings: Settings, response: object, status: int
) -> None:
    with engine(response, status) as url:
        assert (await findings(settings, url))["engine"].status == "warning"


async def test_a_secret_that_others_can_read_is_a_problem_with_the_command_that_fixes_it(settings: Settings) -> None:
    file = settings.home / "secret_key"
    file.chmod(0o644)
    found = (await findings(settings))["secrets"]
    assert (found.status, found.advice) == ("problem", f"chmod 600 {file}")
    file.chmod(0o600)
    assert (await findings(settings))["secrets"].status == "warning"


@pytest.mark.parametrize("content", [b"", b"short\n"])
async def test_a_damaged_secret_is_a_problem(settings: Settings, content: bytes) -> None:
    (settings.home / "secret_key").write_bytes(content)
    found = (await findings(settings))["secrets"]
    assert found.status == "problem"
    assert "is damaged" in found.message


async def test_a_storage_that_cannot_be_written_is_a_problem(settings: Settings) -> None:
    # A file where the directory should be: it stops root as well, unlike mode bits.
    (settings.home / "storage").write_text("")
    found = (await findings(settings))["storage"]
    assert found.status == "problem"
    assert str(settings.home / "storage") in found.message
    assert "The user who runs Callsheet must own" in found.advice


@pytest.mark.thorough
async def test_local_files_that_only_another_machine_has_are_a_problem(core: Core, ann: Member, tmp_path: Path) -> None:
    settings = core.databases._settings
    async with open_media_harness(core, ann, settings.home) as media:
        await media.upload()
    assert (await findings(settings))["storage"].status == "ok"
    # A second control plane, with the same key and databases and a data directory of its own.
    home = tmp_path / "second"
    home.mkdir(0o700)
    shutil.copy2(settings.home / "secret_key", home)
    found = (await findings(settings.model_copy(update={"home": home})))["storage"]
    assert found.status == "problem"
    assert "1 of the 1 newest file. Another" in found.message
    assert "CALLSHEET_STORAGE__BACKEND=s3" in found.advice


async def test_local_storage_is_a_warning_if_callsheet_runs_on_another_machine(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def other_machines(central_dsn: str) -> list[str]:
        return ["192.0.2.7"]

    # The server of the tests accepts no other machine.
    monkeypatch.setattr(local_storage, "_other_machines", other_machines)
    found = (await findings(settings))["storage"]
    assert found.status == "warning"
    assert "also runs on other machines (192.0.2.7)" in found.message


async def test_an_unavailable_s3_service_is_a_problem(settings: Settings) -> None:
    s3 = settings.storage.s3.model_copy(
        update={"bucket": "pictures", "endpoint_url": CLOSED_URL, "access_key_id": "id"}
    )
    found = (await findings(changed(settings, storage={"backend": "s3", "s3": s3})))["storage"]
    assert found.status == "problem"
    assert found.message


async def test_a_data_directory_that_is_a_file_is_a_problem_of_each_part_that_needs_it(
    settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    found = await findings(settings.model_copy(update={"home": tmp_path / "file"}))
    assert {part for part, finding in found.items() if finding.status == "problem"} == {
        "secrets",
        "database",
        "storage",
    }
    assert "CALLSHEET_HOME" in found["secrets"].message


async def test_an_outdated_schema_is_a_warning_with_the_command_that_migrates_it(settings: Settings) -> None:
    assert settings.database.dsn is not None
    central = await asyncpg.connect(settings.database.dsn.get_secret_value())
    query = "DELETE FROM schema_migrations WHERE version = (SELECT max(version) FROM schema_migrations) RETURNING *"
    last = await central.fetchrow(query)
    assert last is not None
    try:
        found = (await findings(settings))["database"]
    finally:
        await central.copy_records_to_table("schema_migrations", records=[tuple(last)], columns=list(last.keys()))
        await central.close()
    assert (found.status, found.advice) == ("warning", "callsheet db migrate")
    assert "Behind: central" in found.message


async def test_a_workflow_that_crashes_engines_is_a_warning(settings: Settings) -> None:
    assert settings.database.dsn is not None
    central = await asyncpg.connect(settings.database.dsn.get_secret_value())
    slug = "kills-for-the-doctor"
    await central.execute(
        """WITH workflow AS (INSERT INTO workflows (slug, name) VALUES ($1, 'x') RETURNING id)
           INSERT INTO dispatch_history (
               dispatch_id, tenant_id, tenant_job_id, charge_cycle, workflow_id, stage, provider,
               concurrency_identifier, priority, kind, status, attempts, requeues, lease_seq,
               past_lease_tokens, created_at, finished_at)
           SELECT 2000000000, gen_random_uuid(), gen_random_uuid(), 1, id, 'production', 'self_hosted', '', 0,
               'effect', 'failed', 3, 0, 3, '{}', now(), now() FROM workflow""",
        slug,
    )
    await central.execute(
        """INSERT INTO worker_audit_logs (worker_id, event, actor, dispatch_id, details)
           SELECT 'gpu-1', 'failed', 'worker:gpu-1', 2000000000, '{"type": "run_lost"}' FROM generate_series(1, 3)"""
    )
    try:
        found = (await findings(settings))["workflows"]
    finally:
        await central.execute("DELETE FROM worker_audit_logs WHERE dispatch_id = 2000000000")
        await central.execute("DELETE FROM dispatch_history WHERE dispatch_id = 2000000000")
        await central.execute("DELETE FROM workflows WHERE slug = $1", slug)
        await central.close()
    assert found.status == "warning"
    assert f"Runs of {slug}" in found.message
    assert f"callsheet workflows deactivate {slug}" in found.advice


def test_clocks_that_differ_are_a_problem() -> None:
    assert clock_finding("database", -1.9).status == "ok"
    assert clock_finding("database", -2.1).status == "problem"
    assert "time service" in clock_finding("database", 3600).advice


RIGHTS = ("s3:ListMultipartUploadParts", "s3:ListBucketMultipartUploads", "s3:AbortMultipartUpload")


@pytest.mark.parametrize("lacking", [(), *((right,) for right in RIGHTS), RIGHTS], ids=["none", *RIGHTS, "all"])
async def test_rights_that_uploads_in_parts_need_are_tried_and_printed(
    settings: Settings, s3_server: S3Server, lacking: tuple[str, ...]
) -> None:
    name = f"rights-{secrets.token_hex(4)}"
    s3_server.create_bucket(name)
    if lacking:
        s3_server.refuse(name, lacking)
    s3 = S3Settings.model_validate({**s3_server.settings, "bucket": name})
    chosen = changed(settings, storage={"backend": "s3", "s3": s3})
    storage = S3Storage(s3, url_seconds=60)
    found = await parts_findings(chosen, storage)
    if not lacking:
        assert found == []
        assert (await storage.parts._call("read", "list_multipart_uploads")).get("Uploads", []) == []
    else:
        [finding] = found
        assert finding.status == "problem"
        assert f"lack {', '.join(lacking)}:" in finding.message
        statements = json.loads(finding.advice.removeprefix("Add to their policy: "))
        granted = {right: each["Resource"] for each in statements for right in each["Action"]}
        assert granted == {right: f"arn:aws:s3:::{name}{'' if right == RIGHTS[1] else '/*'}" for right in lacking}
    await storage.close()


@pytest.mark.parametrize(
    ("status", "reason"), [(200, "accepts a part whose x-amz-checksum-sha256 is wrong"), (501, "NotImplemented")]
)
async def test_a_service_that_cannot_keep_parts_safe_is_a_problem(settings: Settings, status: int, reason: str) -> None:
    class Handler(Quiet):
        """A service that starts uploads in parts, and responds to each part with this status."""

        def do_POST(self) -> None:
            self._respond(200, "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>")

        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self._respond(status, "")

        def do_GET(self) -> None:
            self._respond(501, "<Error><Code>NotImplemented</Code></Error>")

        def _respond(self, status: int, text: str) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

    with serving(Handler) as url:
        keys = {"access_key_id": "a", "secret_access_key": "b", "region": "eu", "bucket": "bucket"}
        storage = S3Storage(S3Settings.model_validate({**keys, "endpoint_url": url}), url_seconds=60)
        [finding] = await parts_findings(settings, storage)
        await storage.close()
    assert finding.status == "problem"
    assert reason in finding.message
    assert f"CALLSHEET_STORAGE__PARTS_ABOVE_BYTES to {settings.storage.max_upload_bytes}." in finding.advice


@contextmanager
def bucket(allowed: str | None) -> Iterator[str]:
    """A storage service that responds to preflights as its bucket's CORS rule says."""

    class Handler(Quiet):
        def do_OPTIONS(self) -> None:
            may = allowed in ("*", self.headers["origin"]) and self.headers["access-control-request-method"] in (
                "GET",
                "PUT",
            )
            self.send_response(200 if may else 403)
            if may:
                self.send_header("access-control-allow-origin", str(allowed))
            self.send_header("content-length", "0")
            self.end_headers()

    with serving(Handler) as url:
        yield url


@pytest.mark.parametrize(
    ("rule", "refused"),
    [
        ("*", []),
        ("https://a.example", ["https://b.example"]),
        (None, ["https://a.example", "https://b.example"]),
    ],
)
async def test_doctor_checks_a_bucket_with_the_request_of_a_browser(rule: str | None, refused: list[str]) -> None:
    keys = {"access_key_id": "a", "secret_access_key": "b", "region": "eu", "bucket": "bucket"}
    with bucket(rule) as url:
        storage = S3Storage(S3Settings.model_validate({**keys, "endpoint_url": url}), url_seconds=60)
        assert await refused_origins(storage, ["https://a.example", "https://b.example"]) == refused
    if rule == "*":
        # A service that is unreachable allows no origin.
        assert await refused_origins(storage, ["https://a.example"]) == ["https://a.example"]
    await storage.close()


@pytest.mark.thorough
async def test_a_data_directory_that_others_look_into_is_named(settings: Settings) -> None:
    assert "home" not in await findings(settings)
    settings.home.chmod(0o755)
    found = (await findings(settings))["home"]
    assert (found.status, str(settings.home) in found.message) == ("warning", True)
    assert found.advice == f"Close it: chmod go-rw {settings.home}"


async def test_the_web_application_needs_the_rule_too_and_doctor_prints_it(settings: Settings) -> None:
    server = {"public_url": "https://studio.example", "cors_origins": ("https://shop.example",)}
    chosen = changed(settings, server=server)
    origins = browser_origins(chosen)
    assert origins == ("https://studio.example", "https://shop.example")
    [rule] = json.loads(cors_rule(origins))
    assert rule["AllowedOrigins"] == list(origins)
    assert {"GET", "PUT"} <= set(rule["AllowedMethods"])
    keys = {"access_key_id": "a", "secret_access_key": "b", "region": "eu", "bucket": "bucket"}
    with bucket("https://shop.example") as url:
        storage = S3Storage(S3Settings.model_validate({**keys, "endpoint_url": url}), url_seconds=60)
        assert await refused_origins(storage, origins) == ["https://studio.example"]
        await storage.close()


@pytest.mark.thorough
@pytest.mark.parametrize(("previews", "has_pyav", "findings"), [(True, False, 1), (True, True, 0), (False, False, 0)])
async def test_videos_that_will_have_no_previews_are_named(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, previews: bool, has_pyav: bool, findings: int
) -> None:
    if not has_pyav:
        monkeypatch.setattr("callsheet.media.previews.sandbox.find_spec", lambda name: None)
    found = [each for each in await examine(changed(settings, media={"previews": previews})) if each.part == "previews"]
    assert len(found) == findings
    for each in found:
        assert each.status == "warning"
        assert "server,previews" in each.advice
