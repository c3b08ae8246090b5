"""Pipelines that files declare, and the changes that they would cause."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from callsheet.cli.jobs.declarations import changes, read_declaration
from callsheet.toolbox.errors import OperatorError
from callsheet.wire.pipelines.pipelines import CreatePipeline, Pipeline, Step

AT = datetime(2026, 1, 1, tzinfo=UTC)
EFFECT = UUID(int=9)
FILE = """
slug = "portraits"
name = "Portraits"

[[steps]]
name = "Base"
workflow = "paint"
needs_run_prompt = true

[[steps]]
name = "Upscale"
workflow = "enlarge"
needs_parent_image_path = true
max_children = 1
values = { factor = 2 }
"""


def declared(**changed: Any) -> CreatePipeline:
    steps = [
        {"name": "Base", "workflow": "paint", "needs_run_prompt": True},
        {
            "name": "Upscale",
            "workflow": "enlarge",
            "needs_parent_image_path": True,
            "max_children": 1,
            "values": {"factor": 2},
        },
    ]
    return CreatePipeline.model_validate({"slug": "portraits", "name": "Portraits", "steps": steps, **changed})


def there(wanted: CreatePipeline, effect_id: UUID = EFFECT) -> Pipeline:
    """The response of the control plane after this was applied."""
    ordered = sorted(wanted.steps, key=lambda step: step.position or 0)
    steps = [
        Step(
            id=UUID(int=place),
            effect_id=effect_id,
            **{
                **step.model_dump(exclude={"effect"}),
                "position": place,
                "slug": step.slug or step.name.lower().replace(" ", "-"),
            },
        )
        for place, step in enumerate(ordered, start=1)
    ]
    return Pipeline(
        id=UUID(int=1),
        slug=wanted.slug,
        name=wanted.name,
        description=wanted.description,
        version=1,
        created_at=AT,
        updated_at=AT,
        steps=steps,
    )


def changes_shown(found: Pipeline | None, wanted: CreatePipeline) -> list[str]:
    return [str(change) for change in changes(found, there(wanted))]


def test_a_file_is_read_as_the_request_it_declares(tmp_path: Path) -> None:
    (tmp_path / "portraits.toml").write_text(FILE)
    assert read_declaration(tmp_path / "portraits.toml") == declared()


def test_an_applied_declaration_has_no_changes() -> None:
    assert changes_shown(there(declared()), declared()) == []


def test_a_missing_pipeline_is_shown_as_new() -> None:
    assert changes_shown(None, declared()) == [
        "+ pipeline portraits",
        '+ step Base {"workflow": "paint", "needs_run_prompt": true}',
        '+ step Upscale {"workflow": "enlarge", "values": {"factor": 2}, "needs_parent_image_path": true, '
        '"max_children": 1}',
    ]


def test_changes_are_listed_one_by_one() -> None:
    base, upscale = (step.model_dump() for step in declared().steps)
    wanted = declared(
        name="People",
        steps=[
            {**upscale, "max_children": 3},
            {"name": "Fix", "workflow": "mend", "needs_parent_image_path": True},
        ],
    )
    assert changes_shown(there(declared()), wanted) == [
        '~ name: "Portraits" → "People"',
        "- step Base",
        "~ step Upscale: place: 2 → 1",
        "~ step Upscale: max_children: 1 → 3",
        '+ step Fix {"workflow": "mend", "needs_parent_image_path": true}',
    ]
    assert base["name"] == "Base"


def test_a_short_name_and_an_effect_are_compared_also_where_the_file_leaves_them_out() -> None:
    first = {"name": "Base", "workflow": "paint", "slug": "start"}
    found = there(declared(steps=[first]))
    assert changes_shown(found, declared(steps=[first])) == []
    assert changes_shown(found, declared(steps=[{**first, "slug": None}])) == ['~ step Base: slug: "start" → "base"']
    # What the workflow is sold as has been replaced.
    resold = there(declared(steps=[first]), UUID(int=8))
    assert [str(change) for change in changes(found, resold)] == [
        f'~ step Base: effect_id: "{EFFECT}" → "{UUID(int=8)}"'
    ]


def test_steps_with_the_same_name_are_matched_by_their_order() -> None:
    fix = {"name": "Fix", "workflow": "mend", "needs_parent_image_path": True}
    base = {"name": "Base", "workflow": "paint"}
    found = there(declared(steps=[base, fix, fix]))
    assert changes_shown(found, declared(steps=[base, fix, fix])) == []
    assert changes_shown(found, declared(steps=[base, fix, {**fix, "top_k": 3}])) == ["~ step Fix: top_k: null → 3"]


def test_positions_in_the_file_are_the_order() -> None:
    base, upscale = (step.model_dump() for step in declared().steps)
    turned = declared(steps=[{**upscale, "position": 2}, {**base, "position": 1}])
    assert changes_shown(there(declared()), turned) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("slug = ", "is not TOML"),
        ('slug = "a"\nname = "A"\nsteps = []', "steps is []"),
        ('slug = "A B"\nname = "A"\n[[steps]]\nname = "x"\nworkflow = "y"', "slug is 'A B'"),
        (
            'slug = "a"\nname = "A"\ncolour = 1\n[[steps]]\nname = "x"\nworkflow = "y"',
            "colour is 1: This request has no such field",
        ),
        ('slug = "a"\nname = "A"\n[[steps]]\nname = "x"', "steps.0.workflow: This field is required"),
        (f"slug = {'[' * 50_000}", "nested too deeply"),
        (f"slug = {'9' * 5_000}", "too many digits"),
        (FILE.replace("= 1", "= 2.5"), "steps.1.max_children is 2.5"),
        (FILE.replace("= 2 }", "= 2026-01-01 }"), "steps.1.values.factor is"),
        ("self = 1\n" + FILE, "self is 1: This request has no such field"),
        ("model = 1\n" + FILE, "model is 1: This request has no such field"),
        (f"description = '{'x' * 500_000}'\n{FILE}", "description is 'xxx"),
        (f"name = '{'x' * 2**20}'", "too large"),
    ],
    ids=lambda value: repr(value[:30]),
)
def test_a_file_that_declares_no_pipeline_is_refused_with_the_reason(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "wrong.toml").write_text(text)
    with pytest.raises(OperatorError, match=r"wrong\.toml") as refused:
        read_declaration(tmp_path / "wrong.toml")
    assert reason in str(refused.value)
    assert len(str(refused.value)) < 500


def test_a_file_with_bom_and_windows_line_ends_is_read(tmp_path: Path) -> None:
    (tmp_path / "windows.toml").write_bytes(b"\xef\xbb\xbf" + FILE.replace("\n", "\r\n").encode())
    assert read_declaration(tmp_path / "windows.toml").slug == "portraits"


def test_a_file_that_cannot_be_read_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    for name, reason in (("nowhere.toml", "No such file"), ("latin.toml", "not text in UTF-8")):
        with pytest.raises(OperatorError, match=reason):
            read_declaration(tmp_path / name)
