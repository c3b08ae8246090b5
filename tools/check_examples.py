"""`make types` checks the Python blocks of the documentation with mypy, as strictly as the source."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mypy import api

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks_of(page: Path) -> Iterator[tuple[int, str]]:
    """The number of the first line of each block, and its code."""
    text = page.read_text("utf-8")
    for found in _BLOCK.finditer(text):
        yield text.count("\n", 0, found.start(1)) + 1, found[1]


def write_examples(directory: Path, pages: list[Path]) -> list[Path]:
    """Writes each block at the line that it has in its page, so that an error names that line."""
    written = []
    for page in pages:
        for number, (line, code) in enumerate(blocks_of(page)):
            module = directory / f"{page.stem.replace('-', '_').lower()}_{number}.py"
            # The import from __future__ must stay the first statement, so the lines before it are empty.
            module.write_text("\n" * (line - 1) + code, "utf-8")
            written.append(module)
    return written


def main() -> int:
    pages = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    with tempfile.TemporaryDirectory() as directory:
        examples = write_examples(Path(directory), pages)
        # Without files of the settings, mypy would check all of the source again.
        out, errors, status = api.run(["--config-file", str(ROOT / "pyproject.toml"), *map(str, examples)])
    sys.stdout.write(
        out.replace(f"{directory}/", "") if status else f"{len(examples)} examples of the documentation: no issues\n"
    )
    sys.stderr.write(errors)
    return status


if __name__ == "__main__":
    sys.exit(main())
