"""Every page of the web application, and an account that has something to show on each."""

from __future__ import annotations

from tests.browser.runs import GLOW, IMAGINE, add_pipeline, start_run
from tests.browser.runs import waits as run_waits
from tests.browser.stack import Account, Stack
from tests.browser.user_content import batch_ended, ended, sell, submit, upload

# By name; `{name}` is the id of something in the library.
PAGES = {
    "effects": "/effects",
    "effects-none": "/effects?q=nothing",
    "effect-video": "/effects/watermark",
    "effect-text": "/effects/imagine",
    "effect-several": "/effects/glow?several=true",
    "effect-again": "/effects/glow?from={image}",
    "tasks": "/tasks/new?actor=copy",
    "tasks-media": "/tasks/new?actor=media",
    "tasks-answer": "/tasks/new?actor=copy&job={task}",
    "pipelines": "/pipelines",
    "pipeline": "/pipelines/{pipeline}",
    "pipeline-versions": "/pipelines/{pipeline}?tab=versions",
    "pipeline-new": "/pipelines/new?template=explore-an-idea",
    "pipeline-not-found": "/pipelines/none",
    "jobs": "/jobs",
    "jobs-found": "/jobs?q=lighthouse&status=completed",
    "jobs-none": "/jobs?q=nothing",
    "batches": "/batches",
    "batches-none": "/batches?status=running",
    "batch": "/batches/{batch}",
    "batch-not-found": "/batches/none",
    "runs-found": "/runs?status=completed",
    "runs-none": "/runs?status=canceled",
    "run": "/runs/{run}",
    "run-gallery-all": "/runs/{run}?tab=gallery",
    "run-compared": "/runs/{run}?tab=compare&step=glow",
    "run-gates-none": "/runs/{run}?tab=gates",
    "run-best": "/runs/{run}?tab=winners",
    "run-spending": "/runs/{run}?tab=budget",
    "run-not-found": "/runs/none",
    "job-video": "/jobs/{video}",
    "job-image": "/jobs/{image}",
    "job-text": "/jobs/{text}",
    "job-failed": "/jobs/{failed}",
    "job-waiting": "/jobs/{waiting}",
    "job-canceled": "/jobs/{canceled}",
    "job-task": "/jobs/{task}",
    "job-not-found": "/jobs/none",
    "wallet": "/account",
    "api-keys": "/account?tab=keys",
    "security": "/account?tab=security",
    "appearance": "/account?tab=appearance",
    "share": "/share/{share}",
    "share-ended": "/share/none",
    "not-found": "/nowhere",
    "sign-in": "/sign-in",
}
# Of operators.
OPERATED = {
    "operate-overview": "/operate",
    "operate-overview-month": "/operate?range=30d",
    "operate-jobs-all": "/operate/jobs",
    "operate-jobs-failed": "/operate/jobs?status=failed",
    "operate-errors-all": "/operate/jobs?view=errors",
    "operate-bulk-actions": "/operate/jobs?view=actions",
    "operate-job-done": "/operate/jobs/{video}",
    "operate-job-failed": "/operate/jobs/{failed}",
    "operate-job-waiting": "/operate/jobs/{waiting}",
    "operate-job-payload": "/operate/jobs/{image}?tab=payload",
    "operate-job-events": "/operate/jobs/{image}?tab=events",
    "operate-job-money": "/operate/jobs/{canceled}?tab=money",
    "operate-job-task": "/operate/jobs/{task}",
    "operate-job-none": "/operate/jobs/none",
    "operate-workers-all": "/operate/workers",
    "operate-worker-one": "/operate/workers/{worker}",
    "operate-fleet-one": "/operate/fleets/{fleet}",
    "operate-workflows-all": "/operate/workflows",
    "operate-workflow-editor": "/operate/workflows/demo-imagine",
    "operate-workflow-versions": "/operate/workflows/demo-imagine?tab=versions",
    "operate-workflow-requires": "/operate/workflows/demo-imagine?tab=requirements",
    "operate-effects-all": "/operate/effects",
    "operate-effect-one": "/operate/effects/glow",
    "operate-assets-all": "/operate/assets",
    "operate-tenants-all": "/operate/tenants",
    "operate-tenant-users": "/operate/tenants/{tenant}",
    "operate-tenant-wallet": "/operate/tenants/{tenant}?tab=wallet",
    "operate-tenant-limits": "/operate/tenants/{tenant}?tab=limits",
    "operate-tenant-budgets": "/operate/tenants/{tenant}?tab=budgets",
    "operate-tenant-spending": "/operate/tenants/{tenant}?tab=spending&by=key&days=90",
    "operate-users-all": "/operate/users",
    "operate-invitations": "/operate/users?view=invitations",
    "operate-mails-none": "/operate/users?view=mails",
    "operate-user-wallet": "/operate/users/{user}",
    "operate-user-keys": "/operate/users/{user}?tab=keys",
    "operate-user-sessions": "/operate/users/{user}?tab=sessions",
    "operate-user-none": "/operate/users/none",
    "operate-fleets-all": "/operate/fleets",
    "operate-providers-all": "/operate/providers",
    "operate-audit-all": "/operate/audit",
    "operate-ledger-last": "/operate/ledger",
    "operate-settings-all": "/operate/settings",
    "operate-health-all": "/operate/health",
}
Library = tuple[Account, dict[str, str]]


async def fill_library(stack: Stack) -> Library:
    """An account that has made something of every kind, and the ids by name."""
    account = await stack.new_account()
    long_name = f"{'a-long-file-name-' * 6}.png"
    made = {
        "video": await submit(stack, account, "noir", await upload(stack, account)),
        "image": await submit(stack, account, "glow", await upload(stack, account, long_name)),
        "text": await submit(stack, account, "imagine", prompt="a lighthouse on a cliff in heavy rain, " * 8),
        "failed": await submit(stack, account, await sell(stack, "Broken lens", is_broken=True), prompt="a portrait"),
    }
    for job_id in made.values():
        await ended(stack, account, job_id)
    waits = await sell(stack, "Patient painting", is_served=False)
    made |= {name: await submit(stack, account, waits, prompt="hills") for name in ("waiting", "canceled")}
    async with stack.client(account.headers) as client:
        await client.post(f"/api/ai-jobs/{made['canceled']}/cancel")
        product = {"title": "Lamp one", "description": "A warm light for long evenings."}
        task = await client.post("/api/task", json={"actor": "copy", "payload": {"product": product}})
        made["task"] = task.json()["job_id"]
        share = await client.post(f"/api/ai-jobs/{made['image']}/shares", json={"show_input": True})
        made["share"] = share.json()["url"].rpartition("/")[2]
        steps = [
            {"name": "A first image of a very long name that does not fit", "workflow": "demo-imagine"},
            {"name": "Relight", "workflow": "demo-relight", "needs_parent_image_path": True},
        ]
        steps[0] |= {"needs_run_prompt": True, "requires_approval": True}
        pipeline = await client.post("/api/pipelines", json={"slug": "hills", "name": "Hills", "steps": steps})
        assert pipeline.status_code == 201, pipeline.text
        made["pipeline"] = "hills"
        await client.patch("/api/pipelines/hills", json={"steps": [{**steps[0], "max_children": 2}, steps[1]]})
        grid = {"values": {"prompt": ["a dune", "an island with one palm tree " * 8], "seed": [1, 2]}}
        batch = await client.post(
            "/api/batches", json={"effect_id": "imagine", "grid": grid, "client_reference": "order-" * 30}
        )
        made["batch"] = batch.json()["id"]
    await ended(stack, account, made["task"])
    await batch_ended(stack, account, made["batch"])
    pipeline = await add_pipeline(stack, account, "Landscapes", IMAGINE, GLOW)
    made["run"] = await start_run(stack, account, pipeline, "Dunes, at dawn and at dusk, " * 4, target_leaves=2)
    await run_waits(stack, account, made["run"])
    async with stack.client(stack.operator) as client:
        user = (await client.get(f"/api/admin/users/{account.id}")).json()
        [fleet] = (await client.get("/api/admin/fleets?slug=demo")).json()["items"]
        for name, limits in {
            "All of it": {"limit": 100},
            "A name of some length " * 6: {"user_id": user["id"]},
        }.items():
            budget = {"name": name.strip(), "limit": 50_000, "period": "month", "time_zone": "Europe/Berlin", **limits}
            created = await client.post(f"/api/admin/tenants/{user['tenant_id']}/budgets", json=budget)
            assert created.status_code == 201, created.text
        worker = (await client.get("/api/admin/workers", params={"fleet": "demo", "live": True})).json()["items"][0]
    made |= {"user": user["id"], "tenant": user["tenant_id"], "fleet": str(fleet["id"]), "worker": worker["worker_id"]}
    return account, made
