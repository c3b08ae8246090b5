"""Folders of processes: kept while they live, removed by the next one when they were killed."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from callsheet.worker.engines.process_folder import YOUNG_SECONDS, own_folder, remove_left_over

KILLED = """
import os, pathlib, sys
from callsheet.worker.engines.process_folder import own_folder
folder = pathlib.Path(sys.argv[1])
with own_folder(folder):
    (folder / "film").mkdir(parents=True)
    os._exit(9)
"""


def names_in(parent: Path) -> list[str]:
    return sorted(path.name for path in parent.iterdir())


def test_the_folder_of_a_killed_process_is_removed_and_that_of_a_running_one_is_not(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "plane:dead.host:1")], check=False)
    later = time.time() + 2 * YOUNG_SECONDS
    with own_folder(tmp_path / "plane:alive:2"):
        (tmp_path / "plane:alive:2").mkdir()
        assert remove_left_over(tmp_path) == []
        assert remove_left_over(tmp_path, later) == ["plane:dead.host:1"]
        assert names_in(tmp_path) == ["plane:alive:2", "plane:alive:2.lock"]
    assert names_in(tmp_path) == []


def test_a_folder_that_cannot_be_marked_is_used_anyway(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with own_folder(tmp_path / "file" / "folder"):
        assert remove_left_over(tmp_path / "nowhere") == []
