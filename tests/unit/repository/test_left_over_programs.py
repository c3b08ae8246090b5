"""The check at the end of a test run sees the programs that tests left running."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

from tests.support.run.left_over_programs import MARK, left_over
from tests.support.waiting import until


async def test_a_program_of_ours_that_still_runs_is_found_with_its_test(tmp_path: Path) -> None:
    package = tmp_path / "callsheet"
    package.mkdir()
    (package / "__main__.py").write_text("input()")
    # Of this run: another one may be running on the machine.
    mark = f"a test of {os.getpid()}"
    environment = {**os.environ, MARK: mark}
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "callsheet", "worker"), cwd=tmp_path, env=environment, stdin=PIPE
    )
    try:
        await until(lambda: left_over(mark))
        [text] = left_over(mark).values()
        assert text.startswith("tests/unit/repository/test_left_over_programs.py::test_a_program_of_ours")
        assert text.endswith("-m callsheet worker")
        assert left_over("another run") == {}
    finally:
        await program.communicate(b"\n")
    assert left_over(mark) == {}
