"""Deleting a job beside a retry of it: it is active or deleted, never both, and its tokens are where its state says."""

from __future__ import annotations

import pytest

from callsheet.jobs.deletion import JobDeletion
from callsheet.jobs.journal import Journal
from callsheet.media.deletion import Deletion
from callsheet.media.storage import open_storage
from callsheet.plumbing.secrets import master_secret
from callsheet.settings import Settings
from callsheet.wire.errors import NotFound, WrongState
from tests.support.holding import holding, waiting
from tests.support.race import CONSUMED, REFUNDED, RESERVE, Race
from tests.support.stage import principal_of

LOCK_WALLET = "SELECT wallet_lock($1, $2)"


@pytest.fixture
def deletion(race: Race, settings: Settings) -> JobDeletion:
    storage = open_storage(settings, master_secret(settings))
    return JobDeletion(race.one.databases, Deletion(storage, "local"), Journal(lambda *_: None))
