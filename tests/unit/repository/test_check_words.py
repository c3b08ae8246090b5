"""The check of the word list: what it finds, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import check_words
from tools.check_words import (
    STYLE,
    Words,
    comments_of_python,
    comments_of_typescript,
    files,
    hash_comments,
    markdown_texts,
    names_in_tests,
    python_texts,
    sql_texts,
    toml_texts,
    typescript_texts,
    violations,
    words_of,
)

WORDS = Words(STYLE.read_text(encoding="utf-8"))


def found(text: str) -> list[str]:
    return [word for _, word in WORDS.found(text)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The user is told.", ["told"]),
        ("Nobody and SOMEBODY", ["nobody", "somebody"]),
        ("It comes\nto nothing.", ["comes to"]),
        ("The signed address expires.", ["address"]),
        ("which is no page", ["is no"]),
        ("It answers.", ["answers"]),
    ],
)
def test_a_word_of_the_list_is_found_in_any_case(text: str, words: list[str]) -> None:
    assert found(text) == words


@pytest.mark.parametrize(
    "text",
    [
        "The e-mail address of a user, the network addresses of clients.",
        "There is no worker. It is no longer there.",
        "understand, outstanding, untold, answer",
        "is_no, whoever_it_is, address_of",
    ],
)
def test_allowed_phrases_and_parts_of_words_are_left_alone(text: str) -> None:
    assert found(text) == []


def test_every_word_has_a_replacement() -> None:
    assert WORDS.instead["told"].startswith("is notified")
    assert all(WORDS.instead.values())


def test_code_and_link_targets_of_a_page_are_not_read() -> None:
    page = "`told` [x](nobody.md)\n```sh\nwhoever\n```\nsomebody\n"
    [text] = markdown_texts(page)
    assert found(text.words) == ["somebody"]
    assert text.words.count("\n", 0, WORDS.found(text.words)[0][0]) == 4


def test_strings_and_comments_of_python_are_read_separately() -> None:
    source = (
        'def f(nobody):\n    """Nobody calls it."""\n    told = "told"  # whoever\n    return f"begun {told} now"\n'
    )
    assert [(text.line, found(text.words)) for text in python_texts(source)] == [(4, ["begun"]), (4, [])]
    assert [(text.line, found(text.words)) for text in comments_of_python(source)] == [
        (2, ["nobody"]),
        (3, ["whoever"]),
    ]


def test_comments_of_sql_values_of_toml_and_texts_of_the_web_application_are_read() -> None:
    assert [found(text.words) for text in sql_texts("-- name: told\nSELECT 1 -- nobody\n")] == [["nobody"]]
    assert [found(text.words) for text in toml_texts('told = "somebody"')] == [["somebody"]]
    script = "// told\nexport const told = { text: `nobody ${whoever}` };"
    assert [found(text.words) for text in typescript_texts(script)] == [["nobody"]]


def test_comments_of_the_web_application_are_read_and_literals_are_not() -> None:
    script = 'const told = "image/*"; // nobody\n/** `begun` by\n somebody */\nconst url = "https://whoever";\n'
    assert [(text.line, found(text.words)) for text in comments_of_typescript(script)] == [
        (1, ["nobody"]),
        (2, ["somebody"]),
    ]


def test_names_of_tests_are_read_as_words() -> None:
    source = (
        '@pytest.mark.parametrize("told", [pytest.param(1, id="by nobody"), 2], ids=["whoever", "a user"])\n'
        "def test_a_user_is_told(told): ...\n"
        "class TestLateAnswers:\n    async def is_begun(self): ...\n"
    )
    assert sorted((text.line, found(text.words)) for text in names_in_tests(source) if found(text.words)) == [
        (1, ["nobody"]),
        (1, ["whoever"]),
        (2, ["told"]),
        (3, ["answers"]),
        (4, ["begun"]),
    ]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("test_it_is_no_part", ["is no"]),
        ("test_it_is_nobodys_image", ["nobody"]),
        ("test_one_email_address_and_an_ip_address", []),
        ("test_there_is_no_answer", []),
    ],
)
def test_allowed_phrases_are_found_in_names(name: str, words: list[str]) -> None:
    assert found(words_of(name)) == words


@pytest.mark.parametrize(
    ("place", "lines"),
    [("src/callsheet/jobs", [1, 2]), ("tests/unit", [1, 3]), ("bench", [1]), ("tools", [1])],
)
def test_each_directory_is_checked_for_what_people_read_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, lines: list[int]
) -> None:
    monkeypatch.setattr(check_words, "ROOT", tmp_path)
    file = tmp_path / place / "module.py"
    file.parent.mkdir(parents=True)
    file.write_text('"""Nobody calls it."""\nprompt = "told by nobody"\ndef test_nobody_calls(): ...\n')
    assert files() == [file]
    found_lines = {int(line.split(":")[1]) for line in violations(WORDS, file)}
    assert found_lines == set(lines)


@pytest.mark.parametrize(("name", "lines"), [("texts/jobs.ts", [1, 2]), ("pages/jobs/JobRow.tsx", [1])])
def test_literals_of_the_web_application_are_checked_in_texts_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, lines: list[int]
) -> None:
    monkeypatch.setattr(check_words, "ROOT", tmp_path)
    file = tmp_path / "web" / "src" / name
    file.parent.mkdir(parents=True)
    file.write_text('// Nobody calls it.\nexport const text = "told by the worker";\n')
    assert files() == [file]
    assert {int(line.split(":")[1]) for line in violations(WORDS, file)} == set(lines)


def test_comments_of_shell_make_and_toml_are_checked_and_their_code_is_not() -> None:
    source = "#!/bin/sh told\n# It is told.\nname=told#told  # nobody\n`told` # `told`\n"
    assert [(text.line, found(text.words)) for text in hash_comments(source)] == [
        (2, ["told"]),
        (3, ["nobody"]),
        (4, []),
    ]
    names = {str(file.relative_to(check_words.ROOT)) for file in files()}
    assert {"Makefile", ".ci/run", "pyproject.toml", "tools/run-uv", "deploy/systemd/install"} <= names
    assert {"deploy/systemd/callsheet.service", "deploy/kubernetes/workers.yaml"} <= names


def test_the_verb_is_found_and_the_noun_is_left_alone() -> None:
    assert found("Servers that do not answer") == ["do not answer"]
    assert found("The answer is lost.") == []


@pytest.mark.parametrize(
    ("comment", "openings"),
    [
        ("// Of the first row.", ["Of"]),
        ("/** By id; the rest is left out. */", ["By"]),
        ("// So many rows before the end the next page is read.", ["So many"]),
        ("/* Null: none. For what no field is made for. */", ["For what"]),
        ("/**\n * The first one.\n * Those of the second.\n */", ["Those"]),
        ("// What the chart shows.", ["What"]),
        ("// By default, the first row. So the next one is empty.", []),
        ("// More nodes than this are hidden. A row of `By id`.", []),
    ],
)
def test_a_comment_of_the_web_application_has_a_subject(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, comment: str, openings: list[str]
) -> None:
    monkeypatch.setattr(check_words, "ROOT", tmp_path)
    file = tmp_path / "rows.ts"
    file.write_text(f'{comment}\nexport const label = "By id";\n')
    assert [line.split("'")[1] for line in check_words.fragments(file)] == openings
