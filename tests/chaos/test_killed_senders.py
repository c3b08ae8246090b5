"""A control plane that ends between two steps of a delivery loses no event: the next one sends it."""

from __future__ import annotations

from pathlib import Path

import pytest
from standardwebhooks import Webhook

from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.failpoints import Failpoint
from callsheet.plumbing.installation.secrets import master_secret
from callsheet.settings import Settings
from tests.support.deliveries import delivering
from tests.support.http.webhook_receiver import receiving
from tests.support.jobs.core import open_core
from tests.support.programs.control_plane_process import ControlPlaneProcess
from tests.support.waiting import until

pytestmark = pytest.mark.thorough
NETWORKS = {"CALLSHEET_OUTGOING__ALLOW_NETWORKS": "127.0.0.0/8"}


@pytest.mark.parametrize(
    ("point", "status", "requests"),
    [
        (Failpoint.DELIVERY_CLAIMED_BEFORE_SEND, 200, 0),
        (Failpoint.DELIVERY_SENT_BEFORE_ROW, 200, 1),
        (Failpoint.DELIVERY_ROW_BEFORE_ENDPOINT, 500, 1),
    ],
)
async def test_g12_g13_an_event_of_a_control_plane_that_was_killed_is_sent_by_the_next(
    settings: Settings, databases: Databases, tmp_path: Path, point: Failpoint, status: int, requests: int
) -> None:
    core = await open_core(databases).prepare()
    ann = await core.member()
    async with receiving() as receiver, delivering(core, secret=master_secret(settings)) as deliveries:
        endpoint = await deliveries.endpoint(ann, receiver.url, events=["job.accepted"])
        job = await core.submit(ann)
        receiver.status = status
        dying = ControlPlaneProcess(settings, tmp_path, {**NETWORKS, "CALLSHEET_FAILPOINTS": point.value})
        await dying.spawn()
        await until(lambda: dying.is_over)
        assert len(receiver.requests) == requests
        [row] = await deliveries.rows(ann)
        assert (row["status"], row["attempts"]) == ("waiting", 1)
        await deliveries.let_time_pass()
        receiver.status = 200
        next_one = ControlPlaneProcess(settings, tmp_path, NETWORKS)
        try:
            await next_one.start()

            async def is_delivered() -> bool:
                return [each["status"] for each in await deliveries.rows(ann)] == ["delivered"]

            await until(is_delivered)
        finally:
            await next_one.kill()
    assert len(receiver.requests) == requests + 1
    assert len({headers["webhook-id"] for headers, _ in receiver.requests}) == 1
    for headers, body in receiver.requests:
        assert Webhook(endpoint.secret).verify(body, headers)["data"]["id"] == str(job.id)
