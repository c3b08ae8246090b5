"""Browser tests take the sentences of the web application from its texts, so a rewritten sentence breaks no test."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.texts import app_text

ROOT = Path(__file__).parents[3]
MIN_WORDS = 4
_STRINGS = re.compile(r'"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`')
_HOLE = re.compile(r"\$\{(?:[^{}]|\{[^{}]*\})*\}")
_LITERAL = re.compile(r"app_text\(\s*[\"']([^\"']+)")


@functools.cache
def _texts_of_the_application() -> str:
    parts = []
    for module in sorted((ROOT / "web/src/texts").glob("*.ts")):
        for plain, template in _STRINGS.findall(module.read_text()):
            parts += [plain, *_HOLE.split(template)]
    return "\n".join(parts)


def _compared_texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """What a test passes to a locator or an assertion of Playwright."""
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        if call.func.attr.startswith(("get_by_", "to_have_", "to_contain_", "filter")):
            for argument in [*call.args, *(each.value for each in call.keywords)]:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield call.lineno, argument.value


def _copies(source: str, texts: str) -> list[tuple[int, str]]:
    found = []
    for line, compared in _compared_texts(ast.parse(source)):
        words = compared.strip(" .")
        if len(words.split()) >= MIN_WORDS and words in texts:
            found.append((line, compared))
    return found


def test_a_copy_of_a_sentence_is_found() -> None:
    texts = "Running workers and their machines continue"
    assert _copies('expect(dialog).to_contain_text("workers and their machines continue.")', texts)
    assert not _copies('expect(dialog).to_contain_text("no sentence of the application")', texts)
    assert not _copies('expect(dialog).to_contain_text(app_text("fleets.fleet.scaling.stopText"))', texts)


@pytest.mark.parametrize("test_file", sorted((ROOT / "tests/browser").glob("*.py")), ids=lambda each: each.stem)
def test_browser_tests_repeat_no_sentence_of_the_application(test_file: Path) -> None:
    copies = _copies(test_file.read_text(), _texts_of_the_application())
    assert copies == [], 'Write app_text("file.constant.name", arguments) instead, see tests/browser/texts.py'


def test_every_path_of_a_browser_test_leads_to_a_text() -> None:
    paths = {
        path for module in (ROOT / "tests/browser").glob("test_*.py") for path in _LITERAL.findall(module.read_text())
    }
    assert len(paths) > 100
    for path in sorted(paths):
        # Arguments do not matter here: only whether the text exists.
        app_text(path, 1, 1, 1)
