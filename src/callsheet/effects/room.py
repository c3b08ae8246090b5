"""The routes of the effects room."""

from __future__ import annotations

from callsheet.catalog.room import CatalogRoom
from callsheet.effects.effect_jobs import EffectJobs
from callsheet.effects.preview_routes import effect_preview_router
from callsheet.effects.previews import JobExamples
from callsheet.effects.routes import effect_job_router
from callsheet.effects.workflow_tests import workflow_test_router
from callsheet.identity.room import IdentityRoom
from callsheet.jobs.room import JobsRoom
from callsheet.jobs.show.presenter import Presenter
from callsheet.media.room import MediaRoom
from callsheet.plumbing.http.routing import Router


def effects_routers(
    effect_jobs: EffectJobs,
    catalog: CatalogRoom,
    media: MediaRoom,
    jobs: JobsRoom,
    presenter: Presenter,
    identity: IdentityRoom,
) -> list[Router]:
    authentication = identity.authentication
    return [
        effect_job_router(effect_jobs, presenter, authentication),
        effect_preview_router(catalog, JobExamples(media.files), media.files.storage, authentication),
        workflow_test_router(catalog, effect_jobs, jobs.submission, presenter, identity.audit, authentication),
    ]
