"""The documents say what is there: generated pages are fresh, links lead somewhere, commands exist."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from callsheet.providers.registry import open_registry
from callsheet.settings import Settings, load_settings
from tests.support.programs.commands import whole_command
from tools.generate_docs import pages

ROOT = Path(__file__).parents[3]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "tests" / "README.md"])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
COMMAND = re.compile(r"(?:^|(?<=[`\x22\[]))callsheet((?: +[^\s`\x22#\])]+)+)", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
GUARANTEE = re.compile(r"^## (G\d+): ", re.MULTILINE)
# Files and folders that a page names, from one of BASES on.
SOURCE_FILE = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.(?:py|sql|toml|tsx?))`")
FOLDER = re.compile(r"`((?:[\w.-]+/)+)`")
BASES = (ROOT, ROOT / "src", ROOT / "src" / "callsheet", ROOT / "tests", ROOT / "web" / "src")
FOR_SUCCESSORS = ("CONTRIBUTING.md", "docs/tour.md", "docs/recipes.md", "docs/sql.md", "tests/README.md")
THREAT = re.compile(r"^### (.+)$", re.MULTILINE)
TOML = re.compile(r"^```toml\n(.*?)^```", re.DOTALL | re.MULTILINE)
MAKE = re.compile(r"(?<![\w-])make((?: [a-z][a-z-]*)+)")


def name_of(document: Path) -> str:
    return str(document.relative_to(ROOT))


@pytest.fixture(params=DOCUMENTS, ids=name_of)
def document(request: pytest.FixtureRequest) -> Path:
    assert isinstance(request.param, Path)
    return request.param


PAGES = pages()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_generated_pages_match_the_code(page: Path) -> None:
    assert page.read_text(encoding="utf-8") == PAGES[page], f"{name_of(page)} is stale: run `make docs`"


def test_every_document_is_reached_from_the_readme() -> None:
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        document = waiting.pop()
        reached.add(document)
        waiting += [file for file, _ in links_of(document) if file.suffix == ".md" and file not in reached]
    assert [name_of(document) for document in DOCUMENTS if document not in reached] == []


def test_the_readme_stays_short() -> None:
    """A new user reads all of it."""
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


def test_every_link_leads_somewhere(document: Path) -> None:
    broken = [f"{file}#{anchor}" for file, anchor in links_of(document) if not leads_somewhere(file, anchor)]
    assert broken == []


def test_every_command_in_the_documents_exists(document: Path) -> None:
    written = [match[1].split() for code in CODE.findall(document.read_text()) for match in COMMAND.finditer(code)]
    assert [" ".join(words) for words in written if not is_command(words)] == []


def test_every_make_target_in_the_documents_exists(document: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    code = " ".join(CODE.findall(document.read_text()))
    assert {target for match in MAKE.finditer(code) for target in match[1].split()} <= targets


def test_every_test_in_the_documents_exists(document: Path) -> None:
    named = TEST.findall(document.read_text(encoding="utf-8"))
    assert [f"{file}::{test}" for file, test in named if not is_test(file, test)] == []


def test_every_file_of_the_source_in_the_documents_exists(document: Path) -> None:
    named = SOURCE_FILE.findall(document.read_text(encoding="utf-8"))
    assert [path for path in named if not any((base / path).exists() for base in (*BASES, document.parent))] == []


@pytest.mark.parametrize("name", FOR_SUCCESSORS)
def test_every_folder_in_the_documents_for_successors_exists(name: str) -> None:
    named = FOLDER.findall((ROOT / name).read_text(encoding="utf-8"))
    assert [path for path in named if not any((base / path).is_dir() for base in BASES)] == []


def test_every_guarantee_names_tests_that_prove_it() -> None:
    _, *parts = GUARANTEE.split((ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8"))
    proofs = dict(zip(parts[::2], map(TEST.findall, parts[1::2]), strict=True))
    assert list(proofs) == [f"G{number}" for number in range(1, 15)]
    assert [guarantee for guarantee, tests in proofs.items() if not tests] == []


def test_every_threat_names_tests_of_its_countermeasure() -> None:
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    _, *parts = THREAT.split(text.partition("\n## Threats\n")[2].partition("\n## ")[0])
    shown = dict(zip(parts[::2], map(TEST.findall, parts[1::2]), strict=True))
    assert len(shown) >= 20
    assert [threat for threat, tests in shown.items() if not tests] == []


async def test_every_settings_file_in_the_documents_is_accepted(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with the providers that it describes. The other TOML on the pages is of packages."""
    for text in settings_on(document):
        settings = loaded(text, tmp_path / "callsheet.toml", monkeypatch)
        await open_registry(settings.providers).close()


def settings_on(document: Path) -> list[str]:
    text = document.read_text(encoding="utf-8").replace("…64 digits…", 32 * "4f").replace("…", "x")
    return [block for block in TOML.findall(text) if "project" not in tomllib.loads(block)]


def loaded(text: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    file.write_text(text)
    monkeypatch.setenv("CALLSHEET_CONFIG", str(file))
    return load_settings(home=file.parent, **needed_by(text))


def needed_by(text: str) -> dict[str, Any]:
    """What a page says elsewhere: alerts by e-mail need a mail server, providers their secrets."""
    needed: dict[str, Any] = (
        {"mail": {"host": "smtp.example.com", "sender": "a@example.com"}} if "emails" in text else {}
    )
    services = tomllib.loads(text).get("providers", {}).get("http", {})
    if services:
        needed["providers"] = {"http": {name: {**table, "secret": "s"} for name, table in services.items()}}
    return needed


def test_a_test_that_does_not_exist_would_be_found() -> None:
    assert is_test("tests/unit/repository/test_docs.py", "test_every_link_leads_somewhere")
    assert is_test("tests/unit/repository/test_docs.py", "")
    assert not is_test("tests/unit/repository/test_docs.py", "test_every_link")
    assert not is_test("tests/unit/test_dogs.py", "")


@pytest.mark.parametrize(
    ("words", "exists"),
    [
        ("db status", True),
        ("db add-pool", True),
        ("users create --tenant", True),
        ("db", True),
        ("db vanish", False),
        ("vanish", False),
        ("db status --vanish", False),
        ("-v db status", True),
        ("--profile studio jobs list", True),
        ("--profile studio jobs vanish", False),
        ("--version", True),
        ("--vanish db", False),
    ],
)
def test_a_command_that_does_not_exist_would_be_found(words: str, exists: bool) -> None:
    assert is_command(words.split()) is exists


def links_of(document: Path) -> Iterator[tuple[Path, str]]:
    """The links that stay in this repository: the file, and the heading in it."""
    text = CODE.sub("", document.read_text(encoding="utf-8"))
    for target in LINK.findall(text):
        if "://" not in target:
            path, _, anchor = target.partition("#")
            yield (document.parent / path).resolve() if path else document, anchor


def leads_somewhere(file: Path, anchor: str) -> bool:
    if not file.exists() or not anchor:
        return file.exists()
    headings = HEADING.findall(file.read_text(encoding="utf-8"))
    return anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def is_test(file: str, test: str) -> bool:
    path = ROOT / file
    return path.exists() and (
        not test or re.search(rf"^(    )?(async )?def {test}\(", path.read_text(), re.MULTILINE) is not None
    )


def is_command(words: list[str]) -> bool:
    """Follows the words down the commands; a word after a command's name is an argument, or an option of the
    command."""
    # By what they can do, not by their class: typer may bring a click of its own.
    command: click.Command = whole_command()
    value_of_option = False
    for position, word in enumerate(words):
        children = getattr(command, "commands", None)
        if children is not None and (value_of_option or word.startswith("-")):
            # Of the whole, before the command's name.
            found = [each for each in command.params if word in each.opts]
            if not value_of_option and not found and word not in ("--help", "-h"):
                return False
            value_of_option = any(not getattr(each, "is_flag", False) for each in found)
            continue
        if children is None:
            given = {word for word in words[position:] if word.startswith("-")}
            known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
            return given <= known | {"--help", "-h"}
        if word not in children:
            return False
        command = children[word]
    return True


def test_the_page_about_tasks_names_a_field_that_is_refused() -> None:
    assert "`source_data` is refused" in (ROOT / "docs" / "how-to" / "run-tasks.md").read_text()


@pytest.mark.parametrize(
    "name", ["registration_source", "s3_path", "comfyui_workflow_fleets", "/prompt", "spot interruption", "runs export"]
)
def test_the_record_of_differences_names_what_a_reader_of_a_source_looks_for(name: str) -> None:
    assert name in (ROOT / "docs/decisions/0030-where-we-differ-from-the-source-designs.md").read_text()
