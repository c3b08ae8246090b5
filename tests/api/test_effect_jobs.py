"""`POST /api/ai-jobs`: an effect applied to a video or file of one's own, and every way it is refused."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any
from uuid import UUID

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.dispatch.facts import Criteria
from callsheet.effects.effect_jobs import EffectJobs
from callsheet.fleet.registry.credentials import fleet_secret
from callsheet.identity.access.principal import Principal
from callsheet.plumbing.failpoints import Crashed, Failpoint, armed, crash
from callsheet.plumbing.installation.secrets import master_secret
from callsheet.toolbox.ids import uuid7
from callsheet.wire.effects import SubmitEffectJob
from callsheet.wire.identity import Role
from tests.support.http.accounts import People, Person
from tests.support.http.catalog_api import GRAPH, MP4, PNG, PRIMARY, PROMPT, SEED, CatalogApi, workflow
from tests.support.http.responses import assert_refused
from tests.support.http.scripted_worker import ScriptedWorker, described


@pytest.fixture
async def catalog_api(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> CatalogApi:
    return await CatalogApi.open(plane, client, people)


@pytest.fixture(params=["pool_1", "pool_2"])
async def person_in_each_pool(catalog_api: CatalogApi, request: pytest.FixtureRequest) -> Person:
    return await catalog_api.person(request.param)


@pytest.fixture
async def ann(catalog_api: CatalogApi) -> Person:
    return await catalog_api.person()


async def row_of(plane: ControlPlane, person: Person, job: dict[str, Any]) -> dict[str, Any]:
    pool = await plane.databases.pool(person.tenant.pool)
    async with pool.connection() as connection:
        row = await connection.fetchrow(
            "SELECT * FROM ai_jobs WHERE tenant_id = $1 AND id = $2", person.tenant.id, UUID(job["id"])
        )
    return dict(row)


async def leased(plane: ControlPlane, effect: dict[str, Any], **changes: Any) -> Any:
    """What a worker of the effect's workflow is given next."""
    workflow = await plane.rooms.catalog.workflows.get(effect["workflow"])
    criteria = Criteria((workflow.id,), **changes)
    return await plane.rooms.jobs.starter.lease_and_start(criteria, "effect-worker")


@pytest.mark.parametrize("pool", ["pool_1", "pool_2"])
async def test_an_effect_on_a_video_becomes_a_job_with_all_inputs_of_its_worker(
    stored_plane: ControlPlane, pool: str
) -> None:
    plane = stored_plane
    async with httpx.AsyncClient(base_url=plane.settings.public_url, trust_env=False, timeout=30) as client:
        catalog_api = await CatalogApi.open(
            plane, client, People(plane.rooms.identity.accounts, plane.rooms.identity.keys)
        )
        await check_everything_is_there(catalog_api, plane, await catalog_api.person(pool))


async def test_the_same_request_twice_has_two_seeds_and_a_sent_seed_is_used(
    plane: ControlPlane, catalog_api: CatalogApi, ann: Person
) -> None:
    seed = SEED | {"user_configurable": True}
    properties = [seed if each["key"] == "seed" else each for each in workflow(catalog_api.asset)["properties"]]
    effect = await catalog_api.effect((await catalog_api.workflow(properties=properties))["slug"])
    file_id = await catalog_api.file(ann)
    first = await catalog_api.submit(ann, effect, input_file_id=file_id, idempotency_key="once")
    second = await catalog_api.submit(ann, effect, input_file_id=file_id)
    drawn = [job["input_payload"]["seed"] for job in (first, second)]
    assert drawn[0] != drawn[1]
    # A repeated request is the same job, although its seed was drawn.
    again = (await catalog_api.try_submit(ann, effect, input_file_id=file_id, idempotency_key="once")).json()
    assert (again["id"], again["input_payload"]) == (first["id"], first["input_payload"])
    same = await catalog_api.submit(ann, effect, input_file_id=file_id, input_payload=first["input_payload"])
    assert same["input_payload"] == first["input_payload"]
    graphs = [(await leased(plane, effect)).payload["workflow"] for _ in range(3)]
    assert [graph["5"]["inputs"]["seed"] for graph in graphs] == [*drawn, drawn[0]]


async def check_everything_is_there(catalog_api: CatalogApi, plane: ControlPlane, person_in_each_pool: Person) -> None:
    effect = await catalog_api.effect(overrides={"seed": 5}, credits_cost=30)
    video = await catalog_api.video(person_in_each_pool)
    prompt = 'a "cat"}, "9": {\\ {{style}}\n'
    job = await catalog_api.submit(
        person_in_each_pool,
        effect,
        video_id=video,
        input_payload={"prompt": prompt, "strength": 2, "tiled": True},
        priority=-3,
    )
    assert (job["kind"], job["status"], job["cost"], job["priority"]) == ("effect", "queued", 30, -3)
    assert (await catalog_api.call("GET", "/api/wallet", person=person_in_each_pool)).json()["balance"] == 70
    original = (await catalog_api.call("GET", f"/api/videos/{video}", person=person_in_each_pool)).json()[
        "original_file_id"
    ]
    row = await row_of(plane, person_in_each_pool, job)
    assert (str(row["effect_id"]), str(row["video_id"])) == (effect["id"], video)
    assert [str(file_id) for file_id in row["input_file_ids"]] == [original]

    payload = (await leased(plane, effect)).payload
    graph = payload["workflow"]
    assert graph.keys() == GRAPH.keys()
    assert graph["3"]["inputs"]["text"] == f"{prompt}, in a noir look"
    assert {name: graph["5"]["inputs"][name] for name in ("seed", "cfg", "tiled", "steps")} == {
        "seed": 5,
        "cfg": 2,
        "tiled": True,
        "steps": 20,
    }
    assert (graph["1"], graph["2"]) == (GRAPH["1"], GRAPH["2"])
    primary, overlay = payload["assets"]
    digest = hashlib.sha256(MP4).hexdigest()
    assert primary | {"path": "", "content_hash": digest} == {
        "key": "input",
        "placeholder": "__INPUT_PATH__",
        "type": "video",
        "is_primary_input": True,
        "path": "",
        "content_hash": digest,
        "file_id": original,
        "name": "a.mp4",
        "mime_type": "video/mp4",
    }
    assert await plane.rooms.storage.read(primary["path"], 10_000) == MP4
    assert (overlay["asset_id"], overlay["content_hash"]) == (catalog_api.asset, hashlib.sha256(PNG).hexdigest())
    assert (overlay["type"], overlay["is_primary_input"], overlay["placeholder"]) == ("image", False, "__OVERLAY__")
    assert await plane.rooms.storage.read(overlay["path"], 10_000) == PNG
    rest = {name: value for name, value in payload.items() if name not in ("workflow", "assets")}
    assert rest == {
        "output_node_id": "9",
        "output_extension": "mp4",
        "output_mime_type": "video/mp4",
        "keep_metadata": False,
        "input_path_placeholder": "__INPUT_PATH__",
        "input_name": "a.mp4",
        "input_mime_type": "video/mp4",
        "extra_data": {},
    }


@pytest.mark.parametrize("pool", ["pool_1", "pool_2"])
async def test_an_effect_runs_from_the_upload_to_the_result(stored_plane: ControlPlane, pool: str) -> None:
    plane = stored_plane
    async with httpx.AsyncClient(base_url=plane.settings.public_url, trust_env=False, timeout=30) as client:
        catalog_api = await CatalogApi.open(
            plane, client, People(plane.rooms.identity.accounts, plane.rooms.identity.keys)
        )
        person = await catalog_api.person(pool)
        effect = await catalog_api.effect(credits_cost=5)
        video = await catalog_api.video(person)
        job = await catalog_api.submit(person, effect, video_id=video)

        worker = ScriptedWorker(client, f"effect-worker-{effect['slug']}-{pool}")
        secret = fleet_secret(plane.settings.fleet, master_secret(plane.settings))
        await worker.register(secret, workflow_slugs=[effect["workflow"]])
        given = await worker.job()
        assert (given["job_id"], given["effect_id"]) == (job["id"], effect["id"])
        primary, overlay = given["input_payload"]["assets"]
        assert "path" not in primary | overlay
        assert await worker.download(primary["download_url"]) == await worker.download(given["input_url"]) == MP4
        assert await worker.download(overlay["download_url"]) == PNG
        await worker.heartbeat(given, run_started=True)
        made = MP4 + b"made"
        await worker.deliver(given, made)
        done = await worker.complete(given, output=described(made, "video/mp4"))
        assert (done.status_code, done.json()["status"]) == (200, "completed")

        shown = (await catalog_api.call("GET", f"/api/videos/{video}", person=person)).json()
        assert (shown["status"], shown["effect_id"]) == ("completed", effect["id"])
        assert (await client.get(shown["processed_file_url"])).content == made
        assert (await catalog_api.call("GET", "/api/wallet", person=person)).json()["balance"] == 95
        timed = (await catalog_api.call("GET", f"/api/effects/{effect['slug']}", person=person)).json()
        assert timed["last_processing_time_seconds"] >= 0


async def test_effect_and_workflow_decide_provider_stage_run_limit_and_metadata(
    catalog_api: CatalogApi, plane: ControlPlane, ann: Person
) -> None:
    made = await catalog_api.workflow(run_limit_seconds=77, keep_metadata=True)
    effect = await catalog_api.effect(made["slug"], provider="cloud", stage="staging")
    await catalog_api.submit(ann, effect, input_file_id=await catalog_api.file(ann))
    assert await leased(plane, effect) is None
    started = await leased(plane, effect, providers=("cloud",), stage="staging")
    assert (started.lease.run_limit_seconds, started.effect_id) == (77, UUID(effect["id"]))
    assert started.payload["keep_metadata"] is True


async def test_a_workflow_may_have_a_lease_and_attempts_of_its_own(
    catalog_api: CatalogApi, plane: ControlPlane, ann: Person
) -> None:
    made = await catalog_api.workflow(lease_seconds=60, max_attempts=7)
    assert (made["lease_seconds"], made["max_attempts"]) == (60, 7)
    effect = await catalog_api.effect(made["slug"])
    file_id = await catalog_api.file(ann)
    await catalog_api.submit(ann, effect, input_file_id=file_id)
    lease = (await leased(plane, effect)).lease
    known = await plane.rooms.jobs.dispatch.queue.find(lease.dispatch_id)
    assert known is not None
    assert (lease.lease_seconds, known.max_attempts) == (60, 7)
    address = f"/api/admin/workflows/{made['slug']}"
    kept = (await catalog_api.call("PATCH", address, {"name": "Other", "lease_seconds": None})).json()
    assert (kept["lease_seconds"], kept["max_attempts"]) == (None, 7)
    await catalog_api.submit(ann, effect, input_file_id=file_id)
    assert (await leased(plane, effect)).lease.lease_seconds == plane.settings.jobs.lease_seconds


async def test_a_workflow_may_keep_the_spent_tokens_of_a_canceled_job(
    catalog_api: CatalogApi, plane: ControlPlane, client: httpx.AsyncClient, ann: Person
) -> None:
    effect = await catalog_api.effect(credits_cost=50)
    path = f"/api/admin/workflows/{effect['workflow']}"
    assert (await catalog_api.call("GET", path)).json()["refund_on_cancel"] == "all"
    before = await catalog_api.submit(ann, effect, video_id=await catalog_api.video(ann))
    assert (await catalog_api.call("PATCH", path, {"refund_on_cancel": "unspent"})).json()[
        "refund_on_cancel"
    ] == "unspent"
    wrong = await catalog_api.call("PATCH", path, {"refund_on_cancel": "some"})
    assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (422, "refund_on_cancel")
    shown = (await catalog_api.call("GET", f"/api/effects/{effect['slug']}", person=ann)).json()
    assert shown["refund_on_cancel"] == "unspent"
    after = await catalog_api.submit(ann, effect, video_id=await catalog_api.video(ann))
    worker = ScriptedWorker(client, f"canceled-{effect['slug']}")
    secret = fleet_secret(plane.settings.fleet, master_secret(plane.settings))
    await worker.register(secret, workflow_slugs=[effect["workflow"]], max_concurrency=2)
    for _ in (before, after):
        await worker.heartbeat(await worker.job(current_load=0), run_started=True, progress={"percent": 60})
    refunds = {}
    for job in (before, after):
        assert (await catalog_api.call("POST", f"/api/ai-jobs/{job['id']}/cancel", person=ann)).status_code == 200
        lines = (await catalog_api.call("GET", "/api/wallet/transactions", person=ann)).json()["items"]
        refunds[job["id"]] = (lines[0]["type"], lines[0]["job_id"], lines[0]["amount"], lines[0]["kept"])
    # What held when it was submitted counts.
    assert refunds[before["id"]] == ("JOB_REFUND", before["id"], 50, 0)
    assert refunds[after["id"]] == ("JOB_REFUND", after["id"], 20, 30)
    await worker.deregister("the test is over")


async def test_a_file_replaces_a_video_and_an_own_image_replaces_the_asset(
    catalog_api: CatalogApi, plane: ControlPlane, person_in_each_pool: Person
) -> None:
    effect = await catalog_api.effect()
    file_id = await catalog_api.file(person_in_each_pool)
    image = await catalog_api.file(person_in_each_pool, PNG, "image/png", "me.png")
    job = await catalog_api.submit(
        person_in_each_pool,
        effect,
        effect_id=effect["id"],
        input_file_id=file_id,
        input_payload={"prompt": "x", "overlay": image},
    )
    row = await row_of(plane, person_in_each_pool, job)
    assert (row["video_id"], [str(each) for each in row["input_file_ids"]]) == (None, [file_id, image])
    primary, overlay = (await leased(plane, effect)).payload["assets"]
    assert (primary["file_id"], overlay["file_id"], overlay["name"]) == (file_id, image, "me.png")


async def test_an_effect_may_take_no_file_at_all(catalog_api: CatalogApi, plane: ControlPlane, ann: Person) -> None:
    graph = {
        "3": {"class_type": "CLIPTextEncode", "inputs": {"text": "{{prompt}}"}},
        "9": {"class_type": "SaveImage", "inputs": {"images": ["3", 0], "filename_prefix": "x"}},
    }
    made = await catalog_api.workflow(
        graph=graph, properties=[PROMPT], output_extension="png", output_mime_type="image/png"
    )
    effect = await catalog_api.effect(made["slug"])
    assert (await catalog_api.call("GET", f"/api/effects/{effect['slug']}", person=ann)).json()["input"] is None
    for field, value in (("input_file_id", await catalog_api.file(ann)), ("video_id", await catalog_api.video(ann))):
        refused = assert_refused(
            await catalog_api.try_submit(ann, effect, **{field: value}), 422, "invalid_request", field
        )
        assert "takes no file" in refused["detail"]
    await catalog_api.submit(ann, effect)
    payload = (await leased(plane, effect)).payload
    assert (payload["assets"], payload["input_name"], payload["input_mime_type"]) == ([], None, None)
    assert payload["workflow"]["3"]["inputs"]["text"] == "a cat"


async def test_the_same_key_returns_the_same_job_after_the_effect_has_changed(
    catalog_api: CatalogApi, ann: Person
) -> None:
    effect = await catalog_api.effect(credits_cost=10)
    request = {"input_file_id": await catalog_api.file(ann), "idempotency_key": "once"}
    first = await catalog_api.try_submit(ann, effect, **request)
    again = await catalog_api.try_submit(ann, effect, **request)
    assert (first.status_code, again.status_code) == (201, 200)
    assert (first.headers.get("idempotent-replayed"), again.headers["idempotent-replayed"]) == (None, "true")
    assert again.json()["id"] == first.json()["id"]
    # The key is looked at before the effect, the files and the cap are.
    await catalog_api.call("PATCH", f"/api/admin/effects/{effect['slug']}", {"is_published": False})
    assert (await catalog_api.try_submit(ann, effect, **request)).json()["id"] == first.json()["id"]
    other = await catalog_api.try_submit(ann, effect, **request, input_payload={"prompt": "a dog"})
    assert_refused(other, 422, "idempotency_key_reused", "input_payload.prompt")
    # And after what is wrong with the request itself.
    assert_refused(await catalog_api.try_submit(ann, effect, **request, priority=1), 422, "invalid_request", "priority")
    assert (await catalog_api.call("GET", "/api/wallet", person=ann)).json()["balance"] == 90


async def test_concurrent_requests_with_the_same_key_make_one_job(catalog_api: CatalogApi, ann: Person) -> None:
    effect = await catalog_api.effect(credits_cost=10)
    request = {"input_file_id": await catalog_api.file(ann), "idempotency_key": "twins"}
    responses = await asyncio.gather(*(catalog_api.try_submit(ann, effect, **request) for _ in range(5)))
    assert sorted(response.status_code for response in responses) == [200, 200, 200, 200, 201]
    assert len({response.json()["id"] for response in responses}) == 1
    assert (await catalog_api.call("GET", "/api/wallet", person=ann)).json()["balance"] == 90


async def test_an_unpublished_effect_is_not_found(catalog_api: CatalogApi, ann: Person) -> None:
    hidden = await catalog_api.effect(is_published=False)
    file_id = await catalog_api.file(ann)
    for effect in (hidden, {"slug": "no-such-effect"}, {"slug": str(uuid7())}, {"slug": hidden["id"]}):
        refused = await catalog_api.try_submit(ann, effect, input_file_id=file_id)
        assert_refused(refused, 404, "not_found", "effect_id")


async def test_effects_of_a_disabled_workflow_accept_no_jobs(catalog_api: CatalogApi, ann: Person) -> None:
    effect = await catalog_api.effect()
    await catalog_api.call("POST", f"/api/admin/workflows/{effect['workflow']}/deactivate")
    refused = await catalog_api.try_submit(ann, effect, input_file_id=await catalog_api.file(ann))
    assert "switched off" in assert_refused(refused, 422, "invalid_request", "effect_id")["detail"]
    shown = await catalog_api.call("GET", f"/api/effects/{effect['slug']}", person=ann)
    assert shown.json()["is_available"] is False


async def test_a_file_of_another_user_is_refused_like_a_missing_file(catalog_api: CatalogApi, ann: Person) -> None:
    effect = await catalog_api.effect()
    mine = await catalog_api.file(ann)
    strangers = [
        await catalog_api.person(tenant_of=ann),
        await catalog_api.person("pool_1"),
        await catalog_api.person("pool_2"),
    ]
    for stranger in strangers:
        video, file_id = await catalog_api.video(stranger), await catalog_api.file(stranger)
        theirs = await catalog_api.try_submit(ann, effect, video_id=video)
        missing = await catalog_api.try_submit(ann, effect, video_id=str(uuid7()))
        assert _errors_of(theirs, "video_id") == _errors_of(missing, "video_id")
        theirs = await catalog_api.try_submit(ann, effect, input_file_id=file_id)
        missing = await catalog_api.try_submit(ann, effect, input_file_id=str(uuid7()))
        assert _errors_of(theirs, "input_file_id") == _errors_of(missing, "input_file_id")
        payloads = [{"prompt": "x", "overlay": other} for other in (file_id, str(uuid7()), catalog_api.asset)]
        responses = [
            await catalog_api.try_submit(ann, effect, input_file_id=mine, input_payload=each) for each in payloads
        ]
        assert len({str(_errors_of(response, "input_payload.overlay")) for response in responses}) == 1
    assert (await catalog_api.call("GET", "/api/ai-jobs", person=ann)).json()["items"] == []


def _errors_of(response: httpx.Response, field: str) -> list[dict[str, str]]:
    return list(assert_refused(response, 422, "invalid_request", field)["errors"])


async def test_an_upload_that_was_not_confirmed_cannot_be_used(catalog_api: CatalogApi, ann: Person) -> None:
    effect = await catalog_api.effect()
    declared = {"name": "a.mp4", "mime_type": "video/mp4", "size": 5}
    pending = (await catalog_api.made("/api/videos/uploads", declared, person=ann))["file"]["id"]
    assert_refused(
        await catalog_api.try_submit(ann, effect, input_file_id=pending), 422, "invalid_request", "input_file_id"
    )


async def test_a_file_of_another_kind_is_refused_by_its_field(catalog_api: CatalogApi, ann: Person) -> None:
    effect = await catalog_api.effect()
    image = await catalog_api.file(ann, PNG, "image/png", "me.png")
    clip = await catalog_api.file(ann)
    wrong = await catalog_api.try_submit(ann, effect, input_file_id=image)
    assert "The file must be a video" in assert_refused(wrong, 422, "invalid_request", "input_file_id")["detail"]
    both = await catalog_api.try_submit(
        ann, effect, input_file_id=image, input_payload={"prompt": "x", "overlay": clip}
    )
    assert_refused(both, 422, "invalid_request", "input_file_id", "input_payload.overlay")
    small = {**PRIMARY, "limits": {"max_bytes": 10}}
    made = await catalog_api.workflow()
    properties = [small, *made["properties"][1:]]
    await catalog_api.call("PATCH", f"/api/admin/workflows/{made['slug']}", {"properties": properties})
    large = await catalog_api.try_submit(
        ann, await catalog_api.effect(made["slug"]), video_id=await catalog_api.video(ann)
    )
    assert "The limit is 10" in assert_refused(large, 422, "invalid_request", "video_id")["detail"]


async def test_a_video_that_is_too_long_is_refused_once_its_length_is_known(
    catalog_api: CatalogApi, plane: ControlPlane, ann: Person
) -> None:
    made = await catalog_api.workflow()
    properties = [{**PRIMARY, "limits": {"max_seconds": 2}}, *made["properties"][1:]]
    await catalog_api.call("PATCH", f"/api/admin/workflows/{made['slug']}", {"properties": properties})
    effect = await catalog_api.effect(made["slug"])
    shown = (await catalog_api.call("GET", f"/api/effects/{effect['slug']}", person=ann)).json()
    assert shown["input"]["max_seconds"] == 2
    clip = await catalog_api.file(ann)
    values = {"prompt": "x"}
    await catalog_api.submit(ann, effect, input_file_id=clip, input_payload=values)
    pool = await plane.databases.pool(ann.tenant.pool)
    async with pool.connection() as connection:
        await connection.execute(
            "INSERT INTO file_previews (tenant_id, file_id, kind, duration_seconds) VALUES ($1, $2, 'video', 3) "
            "ON CONFLICT (tenant_id, file_id) DO UPDATE SET duration_seconds = 3",
            ann.tenant.id,
            UUID(clip),
        )
    long = await catalog_api.try_submit(ann, effect, input_file_id=clip, input_payload=values)
    assert "3 seconds long. The limit is 2." in assert_refused(long, 422, "invalid_request", "input_file_id")["detail"]


async def test_a_job_without_the_required_file_is_refused(catalog_api: CatalogApi, ann: Person) -> None:
    effect = await catalog_api.effect()
    refused = assert_refused(await catalog_api.try_submit(ann, effect), 422, "invalid_request", "input_file_id")
    assert "video_id or input_file_id" in refused["detail"]


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"effect_id": "Not A Slug"}, ["effect_id"]),
        ({"effect_id": None}, ["effect_id"]),
        ({"input_file_id": "x"}, ["input_file_id"]),
        ({"video_id": "01900000-0000-7000-8000-000000000000"}, ["input_file_id"]),
        ({"priority": 1}, ["priority"]),
        ({"priority": -4}, ["priority"]),
        ({"priority": 2**31}, ["priority"]),
        ({"priority": -(2**31) - 1}, ["priority"]),
        ({"idempotency_key": ""}, ["idempotency_key"]),
        ({"idempotency_key": "a\0b"}, ["idempotency_key"]),
        ({"input_payload": []}, ["input_payload"]),
        ({"input_payload": {"prompt": "a\0b"}}, ["input_payload.prompt"]),
        ({"input_payload": {"prompt": "\ud800"}}, ["input_payload.prompt"]),
        ({"input_payload": {"prompt": "x" * 20_001}}, ["input_payload.prompt"]),
        ({"input_payload": {"prompt": ["x"]}}, ["input_payload.prompt"]),
        ({"input_payload": {"prompt": None}}, ["input_payload.prompt"]),
        ({"input_payload": {"strength": float("nan"), "prompt": "x"}}, ["input_payload.strength"]),
        ({"input_payload": {"strength": 10**400, "prompt": "x"}}, ["input_payload.strength"]),
        (
            {"input_payload": {"strength": 11, "tiled": 1, "prompt": "x"}},
            ["input_payload.strength", "input_payload.tiled"],
        ),
        ({"input_payload": {"seed": 1, "prompt": "x"}}, ["input_payload.seed"]),
        ({"input_payload": {"nothing": 1, "\ud800": 2, "prompt": "x"}}, ["input_payload.nothing", "input_payload.?"]),
        ({"input_payload": {"input": "01900000-0000-7000-8000-000000000000", "prompt": "x"}}, ["input_payload.input"]),
        ({"input_payload": {"overlay": "x", "prompt": "x"}}, ["input_payload.overlay"]),
        ({"input_payload": {}}, ["input_payload.prompt"]),
        ({"surprise": 1}, ["surprise"]),
    ],
    ids=lambda value: str(value)[:60],
)
async def test_a_bad_request_names_each_field_and_writes_nothing(
    catalog_api: CatalogApi, ann: Person, change: dict[str, Any], fields: list[str]
) -> None:
    effect = await catalog_api.effect()
    file_id = await catalog_api.file(ann)
    refused = await catalog_api.try_submit(ann, effect, **{"input_file_id": file_id, **change})
    assert_refused(refused, 422, "invalid_request", *fields)
    assert (await catalog_api.call("GET", "/api/ai-jobs", person=ann)).json()["items"] == []
    assert (await catalog_api.call("GET", "/api/wallet", person=ann)).json()["balance"] == 100


async def test_only_admins_may_set_a_priority(catalog_api: CatalogApi, ann: Person, people: People) -> None:
    effect = await catalog_api.effect()
    refused = await catalog_api.try_submit(ann, effect, input_file_id=await catalog_api.file(ann), priority=1)
    assert_refused(refused, 422, "invalid_request", "priority")
    admin = await people.user(role=Role.OPERATOR)
    job = await catalog_api.submit(admin, effect, input_file_id=await catalog_api.file(admin), priority=9)
    assert job["priority"] == 9


async def test_a_refusal_for_too_few_tokens_or_too_many_jobs_has_the_numbers(
    catalog_api: CatalogApi, ann: Person
) -> None:
    dear, cheap = await catalog_api.effect(credits_cost=101), await catalog_api.effect()
    file_id = await catalog_api.file(ann)
    poor = assert_refused(await catalog_api.try_submit(ann, dear, input_file_id=file_id), 402, "insufficient_tokens")
    assert (poor["required_tokens"], poor["balance"]) == (101, 100)
    for _ in range(5):
        await catalog_api.submit(ann, cheap, input_file_id=file_id)
    many = assert_refused(await catalog_api.try_submit(ann, cheap, input_file_id=file_id), 429, "too_many_active_jobs")
    assert (many["active"], many["limit"]) == (5, 5)


async def test_a_video_with_an_active_job_accepts_no_other_job(catalog_api: CatalogApi, ann: Person) -> None:
    effect = await catalog_api.effect()
    video = await catalog_api.video(ann)
    job = await catalog_api.submit(ann, effect, video_id=video)
    assert_refused(await catalog_api.try_submit(ann, effect, video_id=video), 409, "in_use", "video_id")
    shown = (await catalog_api.call("GET", f"/api/videos/{video}", person=ann)).json()
    assert (shown["status"], shown["job_id"], shown["effect_id"]) == ("queued", job["id"], effect["id"])
    await catalog_api.call("POST", f"/api/ai-jobs/{job['id']}/cancel", person=ann)
    await catalog_api.submit(ann, effect, video_id=video)


async def test_an_effect_with_jobs_can_be_unpublished_but_not_deleted(catalog_api: CatalogApi, ann: Person) -> None:
    effect = await catalog_api.effect()
    address = f"/api/admin/effects/{effect['slug']}"
    await catalog_api.submit(ann, effect, input_file_id=await catalog_api.file(ann))
    assert (await catalog_api.call("GET", address)).json()["has_jobs"] is True
    assert_refused(await catalog_api.call("DELETE", address), 409, "in_use")
    assert (await catalog_api.call("PATCH", address, {"is_published": False})).status_code == 200


async def test_a_job_keeps_the_graph_of_its_submission(
    catalog_api: CatalogApi, plane: ControlPlane, ann: Person
) -> None:
    effect = await catalog_api.effect()
    await catalog_api.submit(ann, effect, input_file_id=await catalog_api.file(ann))
    graph = {**GRAPH, "5": {**GRAPH["5"], "inputs": {**GRAPH["5"]["inputs"], "steps": 99}}}
    changed = await catalog_api.call("PATCH", f"/api/admin/workflows/{effect['workflow']}", {"graph": graph})
    assert changed.status_code == 200, changed.text
    await catalog_api.submit(ann, effect, input_file_id=await catalog_api.file(ann))
    steps = [(await leased(plane, effect)).payload["workflow"]["5"]["inputs"]["steps"] for _ in range(2)]
    assert steps == [20, 99]


async def test_submitting_needs_a_signed_in_user(catalog_api: CatalogApi) -> None:
    response = await catalog_api.client.post("/api/ai-jobs", json={"effect_id": "x"})
    assert_refused(response, 401, "not_authenticated")


async def test_a_crash_before_the_job_is_written_charges_nothing_and_blocks_no_retry(
    catalog_api: CatalogApi, plane: ControlPlane, ann: Person
) -> None:
    effect = await catalog_api.effect(credits_cost=10)
    file_id = await catalog_api.file(ann)
    wanted = SubmitEffectJob(
        effect_id=effect["slug"], input_file_id=UUID(file_id), input_payload={"prompt": "x"}, idempotency_key="k"
    )
    effect_jobs = EffectJobs(plane.databases, plane.rooms.catalog, plane.rooms.media.files, plane.rooms.jobs.submission)
    principal = Principal(
        user_id=ann.user.id,
        tenant_id=ann.tenant.id,
        tenant=ann.tenant.slug,
        pool=ann.tenant.pool,
        email=ann.user.email,
        name="",
        role=Role.USER,
        signed_in_with="api_key",
    )
    with armed({Failpoint.EFFECT_BEFORE_SUBMIT: crash}), pytest.raises(Crashed):
        await effect_jobs.submit(principal, wanted)
    assert (await catalog_api.call("GET", "/api/wallet", person=ann)).json()["balance"] == 100
    assert (await catalog_api.call("GET", "/api/ai-jobs", person=ann)).json()["items"] == []
    again = await effect_jobs.submit(principal, wanted)
    assert (again.replayed, (await effect_jobs.submit(principal, wanted)).job.id) == (False, again.job.id)
    assert (await catalog_api.call("GET", "/api/wallet", person=ann)).json()["balance"] == 90
