"""Fails on texts that write a number with its noun by hand, which were wrong for 1. Part of `make lint`.

Python has `wire/plurals.py` for this, the web application has `web/src/texts/plurals.ts`.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
# What the product counts. Words that are verbs as well, for example "calls", are left out: a name often precedes them.
NOUNS = (
    "actions|actors|alerts|attempts|bytes|callbacks|candidates|cells|characters|columns|connections|copies|credits|"
    "databases|days|deliveries|effects|engines|entries|errors|events|executions|files|findings|fleets|frames|hours|"
    "images|inputs|items|jobs|keys|leaves|levels|lines|links|loops|messages|minutes|models|nodes|objects|outputs|pages|"
    "pairs|passwords|pixels|policies|pools|ports|problems|processes|properties|replays|requests|retries|rows|runs|"
    "seconds|sessions|steps|streams|strikes|tasks|tenants|times|tokens|uploads|users|values|videos|votes|wallets|"
    "warnings|words|workers|workflows"
)
# `3 jobs` and `3 waiting jobs`; not `demo has jobs`.
NO_NUMBER = "has|had|is|was|names|of|in|from|to|and|with|within|keeps|get|gets|takes|runs"
AFTER_NUMBER = re.compile(rf"^\+? (?!(?:{NO_NUMBER}) )(?:[a-z-]+ )?(?:{NOUNS})\b")
CONSTANT = re.compile(r"(?:\w+\.)*[A-Z][A-Z0-9_]+(?:\[.*\])?$")
FORMS = ({"s", ""}, {"is", "are"}, {"was", "were"}, {"has", "have"}, {"does", "do"})
IN_TEMPLATE = re.compile(r"\$\{(?P<value>[^{}]*)\}(?P<after>\+? [^`$]{0,60})")
# count === 1 ? "1 job" : …
CHOICE = re.compile(r"=== \"?1\"?\s+\? (?:\"1 |\"(?P<one>\w+)\"\s+: \"(?P<many>\w+)\")")


class Place(NamedTuple):
    line: int
    text: str


def in_python(source: str) -> Iterator[Place]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            for value, text in zip(node.values, node.values[1:], strict=False):
                if not isinstance(value, ast.FormattedValue) or not isinstance(text, ast.Constant):
                    continue
                if not CONSTANT.match(ast.unparse(value.value)) and AFTER_NUMBER.match(str(text.value)):
                    yield Place(value.lineno, f"{{{ast.unparse(value.value)}}}{str(text.value)[:30]}")
        elif isinstance(node, ast.IfExp) and _is_about_one(node.test):
            forms = [each.value for each in (node.body, node.orelse) if isinstance(each, ast.Constant)]
            if len(forms) == 2 and _are_forms(*map(str, forms)):
                yield Place(node.lineno, ast.unparse(node))


def _is_about_one(test: ast.expr) -> bool:
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.ops[0], ast.Eq | ast.NotEq)
        and isinstance(test.comparators[0], ast.Constant)
        and test.comparators[0].value == 1
    )


def _are_forms(one: str, other: str) -> bool:
    return {one, other} in FORMS or (bool(one and other) and (f"{one}s" == other or f"{other}s" == one))


def in_typescript(source: str) -> Iterator[Place]:
    for number, line in enumerate(source.splitlines(), start=1):
        for found in IN_TEMPLATE.finditer(line):
            if AFTER_NUMBER.match(found["after"]) and not CONSTANT.match(found["value"]):
                yield Place(number, found[0])
    # The formatter breaks a long choice over lines.
    for found in CHOICE.finditer(source):
        if found["one"] is None or _are_forms(found["one"], found["many"]):
            yield Place(source.count("\n", 0, found.start()) + 1, found[0])


def main() -> None:
    found = []
    sources = [("web/src", "*.ts*", in_typescript), ("clients/typescript/src", "*.ts", in_typescript)]
    for folder, pattern, places in (("src/callsheet", "*.py", in_python), *sources):
        for file in sorted((ROOT / folder).rglob(pattern)):
            if file.name in ("plurals.py", "plurals.ts", "schema.ts"):
                continue
            found += [f"{file.relative_to(ROOT)}:{place.line}: {place.text}" for place in places(file.read_text())]
    if found:
        sys.stdout.write("".join(f"{each}\n" for each in found))
        sys.exit(f"{len(found)} texts write a number with its noun by hand: use counted() (docs/style.md)")


if __name__ == "__main__":
    main()
