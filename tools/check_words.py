"""Fails on words that docs/style.md replaces, in everything that people read. Part of `make lint`."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
STYLE = ROOT / "docs" / "style.md"
ROW = re.compile(r"^\| (?P<left>[^|]+?) \| (?P<right>[^|]+?) \|$", re.MULTILINE)
CODE = re.compile(r"`[^`\n]+`")
FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
LINK_TARGET = re.compile(r"\]\([^)\s]*\)")
# Texts of the web application are string literals in TypeScript; `${…}` is code.
LITERAL = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`")
INSERTED = re.compile(r"\$\{[^}]*\}")
COMMENT = re.compile(r"(?<!:)//[^\n]*|/\*.*?\*/", re.DOTALL)
LITERAL_OR_COMMENT = re.compile(rf"{LITERAL.pattern}|(?P<comment>{COMMENT.pattern})", re.DOTALL)
# Strings are looked for as well, because a `#` in a string does not start a comment. tokenize takes ten times as long.
PYTHON_STRING = r"\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}(?:[^\\]|\\.)*?'{3}|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'"
STRING_OR_PYTHON_COMMENT = re.compile(rf"{PYTHON_STRING}|(?P<comment>#[^\n]*)", re.DOTALL)
CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
HASH_COMMENT = re.compile(r"(?:^|(?<=\s))#.*$")
SQL_COMMENT = re.compile(r"--.*$", re.MULTILINE)
# A comment that starts with one of these has no subject.
OPENING = re.compile(
    r"(?:^[/*\s]*|(?<=[.:;!?])\s[/*\s]*)(Of|By(?! default)|So (?:few|many|much)|More of|Those|What|For what)\b"
)


class Text(NamedTuple):
    line: int
    words: str


class Words:
    """The word list: what is replaced, and the phrases in which it is allowed."""

    def __init__(self, style: str):
        replaced, _, allowed = style.partition("These phrases are allowed")
        self.instead = dict(_rows(replaced))
        self._allowed = _either(phrase for phrase, _ in _rows(allowed))
        self._replaced = _either(self.instead)

    def found(self, text: str) -> list[tuple[int, str]]:
        """Each replaced word with its offset."""
        allowed = [match.span() for match in self._allowed.finditer(text)]
        return [
            (match.start(), " ".join(match[0].lower().split()))
            for match in self._replaced.finditer(text)
            if not any(start <= match.start() and match.end() <= end for start, end in allowed)
        ]


def _rows(table: str) -> Iterator[tuple[str, str]]:
    for row in ROW.finditer(table):
        if row["left"] not in ("do not write", "allowed") and "---" not in row["left"]:
            yield from ((phrase.strip(), row["right"]) for phrase in row["left"].split(","))


def _either(phrases: Iterable[str]) -> re.Pattern[str]:
    # The longest first, and line breaks between the words of a phrase count as blanks.
    patterns = [r"\s+".join(map(re.escape, phrase.split())) for phrase in sorted(phrases, key=len, reverse=True)]
    return re.compile(rf"(?<![\w-])(?:{'|'.join(patterns)})(?![\w-])", re.IGNORECASE)


def markdown_texts(source: str) -> Iterator[Text]:
    yield Text(1, without_code(source))


def without_code(source: str) -> str:
    """The same number of lines, without code and link targets."""
    for code in (FENCE, CODE, LINK_TARGET):
        source = code.sub(lambda match: "\n" * match[0].count("\n"), source)
    return source


def python_texts(source: str) -> Iterator[Text]:
    """String literals with more than one word, without docstrings."""
    docstrings = {id(node) for node in _docstrings(source)}
    for node in _nodes(source):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in docstrings:
            continue
        if " " in node.value:
            yield Text(node.lineno, without_code(node.value))


def comments_of_python(source: str) -> Iterator[Text]:
    """Docstrings, also those of fields, and comments."""
    for node in _docstrings(source):
        yield Text(node.lineno, without_code(str(node.value)))
    for found in STRING_OR_PYTHON_COMMENT.finditer(source):
        if found["comment"]:
            yield Text(source.count("\n", 0, found.start()) + 1, CODE.sub("", found["comment"]))


def names_in_tests(source: str) -> Iterator[Text]:
    """Names of functions and classes, and the ids of parametrized cases, as words."""
    for node in _nodes(source):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield Text(node.lineno, words_of(node.name))
        elif isinstance(node, ast.keyword) and node.arg in ("id", "ids"):
            for value in ast.walk(node.value):
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    yield Text(value.lineno, words_of(value.value))


def words_of(name: str) -> str:
    """`test_an_email_address` → `test an e-mail address`, `LateAnswers` → `Late Answers`."""
    words = CAPITAL.sub(" ", name).replace("_", " ")
    # A name has neither hyphens nor apostrophes.
    return re.sub(r"\bemail\b", "e-mail", re.sub(r"bodys\b", "body's", words))


@lru_cache(maxsize=1)
def _nodes(source: str) -> list[ast.AST]:
    """All nodes of a file. Each of the functions above looks at them, one after the other."""
    return list(ast.walk(ast.parse(source)))


def _docstrings(source: str) -> Iterator[ast.Constant]:
    for node in _nodes(source):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value


def sql_texts(source: str) -> Iterator[Text]:
    for comment in SQL_COMMENT.finditer(source):
        if not re.match(r"-- (name|database|owns):", comment[0]):
            yield Text(source.count("\n", 0, comment.start()) + 1, CODE.sub("", comment[0]))


def typescript_texts(source: str) -> Iterator[Text]:
    source = COMMENT.sub(lambda match: "\n" * match[0].count("\n"), source)
    for literal in LITERAL.finditer(source):
        yield Text(source.count("\n", 0, literal.start()) + 1, INSERTED.sub("", literal[0]))


def comments_of_typescript(source: str) -> Iterator[Text]:
    # A literal such as "image/*" does not start a comment, so both are looked for from left to right.
    for found in LITERAL_OR_COMMENT.finditer(source):
        if found["comment"]:
            yield Text(source.count("\n", 0, found.start()) + 1, CODE.sub("", found["comment"]))


def toml_texts(source: str) -> Iterator[Text]:
    for number, line in enumerate(source.splitlines(), start=1):
        yield Text(number, CODE.sub("", line.partition("=")[2]))


def hash_comments(source: str) -> Iterator[Text]:
    """Comments of files in which `#` starts one: shell, make, TOML, YAML, units. A `#` inside a word does not."""
    for number, line in enumerate(source.splitlines(), start=1):
        found = HASH_COMMENT.search(line)
        # The first line of a program names its interpreter.
        if found and not line.startswith("#!"):
            yield Text(number, CODE.sub("", found[0]))


READERS = {
    ".md": markdown_texts,
    ".py": python_texts,
    ".sql": sql_texts,
    ".ts": typescript_texts,
    ".toml": toml_texts,
}
PLACES = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "docs/**/*.md",
    "tests/README.md",
    "src/**/*.py",
    "src/**/*.sql",
    "src/callsheet/plumbing/http/openapi_texts.toml",
    "web/README.md",
    "web/src/texts/*.ts",
)
# Their string literals are data and file names; people read the docstrings and comments, and the names of tests.
COMMENTS_ONLY = ("bench", "tests", "tools")


WEB_COMMENTS = ("web/src/**/*.ts", "web/src/**/*.tsx", "clients/typescript/src/*.ts")
# They are generated from the API's own texts.
SCHEMAS = {ROOT / "web" / "src" / "api" / "schema.ts", ROOT / "clients" / "typescript" / "src" / "schema.ts"}


# `make help` prints a part of the comments of the Makefile.
HASH_COMMENTS = (
    "Makefile",
    ".ci/*",
    ".editorconfig",
    ".pre-commit-config.yaml",
    "deploy/**/*.yaml",
    "deploy/**/*.service",
    "deploy/systemd/install",
    "pyproject.toml",
    "tools/*",
)


def files() -> list[Path]:
    # Migrations that were released are never changed, not even their comments.
    places = (
        *PLACES,
        *WEB_COMMENTS,
        *HASH_COMMENTS,
        *(f"{directory}/**/*.py" for directory in COMMENTS_ONLY),
    )
    found = {file for place in places for file in ROOT.glob(place) if "migrations" not in file.parts}
    return sorted(file for file in found - {STYLE} - SCHEMAS if file.is_file())


def has_hash_comments(place: Path) -> bool:
    return any(place.match(pattern) for pattern in HASH_COMMENTS) and place.suffix != ".py"


def texts_of(file: Path) -> Iterator[Text]:
    source = file.read_text(encoding="utf-8")
    place = file.relative_to(ROOT)
    if file.suffix == ".toml" or has_hash_comments(place):
        yield from hash_comments(source)
    if has_hash_comments(place):
        return
    if file.suffix in (".ts", ".tsx"):
        yield from comments_of_typescript(source)
        if place.parent.name != "texts" and place.parts[0] != "clients":
            return
    if place.parts[0] not in COMMENTS_ONLY or file.suffix == ".md":
        yield from READERS[file.suffix](source)
    if file.suffix == ".py":
        yield from comments_of_python(source)
        if place.parts[0] == "tests":
            yield from names_in_tests(source)


def violations(words: Words, file: Path) -> Iterator[str]:
    for text in texts_of(file):
        for offset, word in words.found(text.words):
            line = text.line + text.words.count("\n", 0, offset)
            yield f"{file.relative_to(ROOT)}:{line}: {word!r}: write instead: {words.instead[word]}"


def fragments(file: Path) -> Iterator[str]:
    """Comments of the web application whose sentences have no subject."""
    for text in comments_of_typescript(file.read_text(encoding="utf-8")):
        for found in OPENING.finditer(text.words):
            line = text.line + text.words.count("\n", 0, found.start(1))
            yield f"{file.relative_to(ROOT)}:{line}: {found[1]!r} starts a sentence without a subject: say who or what"


def main() -> int:
    words = Words(STYLE.read_text(encoding="utf-8"))
    found = [line for file in files() for line in violations(words, file)]
    found += [line for file in files() if file.suffix in (".ts", ".tsx") for line in fragments(file)]
    for line in found:
        print(line)  # noqa: T201
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
