"""Texts of errors: the reason of a field is a whole sentence, and no text names the field twice."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Annotated

import pytest
from pydantic import AfterValidator, BaseModel, Field, ValidationError
from pydantic_core import ErrorTypeInfo
from pydantic_core._pydantic_core import list_all_errors

from callsheet.plumbing.http.problems import refusal_of_validation
from callsheet.wire.effects import SubmitEffectJob
from callsheet.wire.errors import FieldProblem, InvalidRequest, sentences
from callsheet.wire.reasons import INVALID, reason_of
from tests.support.run.source_files import source_files


def test_a_sentence_that_names_the_field_has_no_name_in_front() -> None:
    assert str(FieldProblem("video_id", "Send either video_id or input_file_id.")) == (
        "Send either video_id or input_file_id."
    )
    assert str(FieldProblem("slug", "This slug is already in use.")) == "This slug is already in use."


@pytest.mark.parametrize("field", ["steps.0.slug", "id", "body.slug"])
def test_any_other_sentence_has_the_name_in_front(field: str) -> None:
    assert str(FieldProblem(field, "This slug is already in use; see ids.")) == (
        f"{field}: This slug is already in use; see ids."
    )


def test_an_error_has_the_sentences_of_the_first_three_fields() -> None:
    problems = [FieldProblem(name, "This field is required.") for name in ("a1", "b1", "c1", "d1")]
    expected = "a1: This field is required. b1: This field is required. c1: This field is required."
    assert sentences(problems) == InvalidRequest.of(problems).detail == expected
    assert InvalidRequest.of(problems).errors == tuple(problems)


class _Form(BaseModel, extra="forbid"):
    text: str = Field("", max_length=3)
    many: list[int] = Field([], max_length=1)
    number: int = Field(1, ge=1)
    needed: str = ""


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"text": "long"}, "The text must have at most 3 characters."),
        ({"many": [1, 2]}, "The list must have at most 1 item."),
        ({"number": 0}, "The value must be greater than or equal to 1."),
        ({"number": "x"}, "The value must be a whole number."),
        ({"other": 1}, "This request has no such field. Check the spelling, or leave it out."),
    ],
)
def test_errors_of_pydantic_are_sentences(values: dict[str, object], reason: str) -> None:
    with pytest.raises(ValidationError) as invalid:
        _Form.model_validate(values)
    assert reason_of(invalid.value.errors()[0]) == reason


class _Part(BaseModel, extra="forbid"):
    input_file_id: str = ""


class _Body(BaseModel, extra="forbid"):
    parts: list[_Part] | None = None
    by_name: dict[str, _Part] = Field(default_factory=dict)
    either: _Part | _Form | None = None
    numbers: Annotated[list[int], Field(max_length=3)] = Field(default_factory=list)


@pytest.mark.parametrize(
    ("values", "field", "reason"),
    [
        ({"part": []}, "part", "Did you mean 'parts'?"),
        ({"parts": [{}, {"inputFileId": "x"}]}, "parts.1.inputFileId", "Did you mean 'input_file_id'?"),
        ({"by_name": {"a": {"input_file": "x"}}}, "by_name.a.input_file", "Did you mean 'input_file_id'?"),
        ({"either": {"input_file": "x"}}, "either._Part.input_file", "Did you mean 'input_file_id'?"),
        ({"x" * 100_000: 1}, "x" * 200, "Check the spelling, or leave it out."),
    ],
)
def test_an_unknown_field_is_refused_with_the_nearest_field_that_exists(
    values: dict[str, object], field: str, reason: str
) -> None:
    with pytest.raises(ValidationError) as invalid:
        _Body.model_validate(values)
    errors = [{**each, "loc": ("body", *each["loc"])} for each in invalid.value.errors()]
    refused = refusal_of_validation(errors, _Body).errors[0]
    assert (refused.field, refused.reason) == (field, f"This request has no such field. {reason}")


PLURALS = {"min_length": 1, "max_length": 2, "field_type": "List"}
# Types and words of Python and pydantic, which a client that sends JSON does not know.
FOREIGN = re.compile(
    r"(?i)\b(input|dict|dictionary|instance|attribute|valid \w+,|tuple|frozen|datetime|timedelta|bool|int|float|None|"
    r"pydantic|value error|assertion|parse|validator|keyword|callable|sentinel|iterable|hashable|unable to)\b"
)


@pytest.mark.parametrize("known", list_all_errors(), ids=lambda known: str(known["type"]))
def test_every_error_that_pydantic_knows_is_a_sentence_in_words_of_the_api(known: ErrorTypeInfo) -> None:
    context = {**(known.get("example_context") or {}), **PLURALS}
    if known["type"] == "value_error":
        context["error"] = ValueError("the text must be short")
    reason = reason_of({"type": known["type"], "ctx": context, "loc": ("field",), "msg": "Input should be a dict"})
    assert is_sentence(reason)
    assert FOREIGN.search(reason) is None
    # A type that pydantic adds has a sentence here, or is named as one that has none.
    assert reason != INVALID or known["type"] in WITHOUT_SENTENCE


WITHOUT_SENTENCE = {
    "is_instance_of",
    "is_subclass_of",
    "callable_type",
    "needs_python_object",
    "default_factory_not_called",
    "multiple_argument_values",
    "missing_sentinel_error",
    "ellipsis_error",
    "assertion_error",
}


def test_what_libraries_say_in_a_validator_is_not_shown() -> None:
    class Form(BaseModel):
        value: Annotated[str, AfterValidator(lambda text: text.encode("ascii"))]

    with pytest.raises(ValidationError) as invalid:
        Form.model_validate({"value": "é"})
    assert reason_of(invalid.value.errors()[0]) == INVALID


def test_no_code_shows_the_messages_of_pydantic() -> None:
    shown = re.compile(r"""\[["']msg["']\]|Value error""")
    found = [
        f"{name}: {match[0]}"
        for name, path in source_files().items()
        for match in shown.finditer(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_a_missing_field_is_named_as_required() -> None:
    with pytest.raises(ValidationError) as invalid:
        SubmitEffectJob.model_validate({})
    assert "This field is required." in {reason_of(error) for error in invalid.value.errors()}


def test_every_reason_in_the_code_is_a_whole_sentence() -> None:
    found = [
        (f"{name}:{line}", reason)
        for name, path in source_files().items()
        if "FieldProblem(" in (source := path.read_text(encoding="utf-8")) or "InvalidRequest.field(" in source
        for line, reason in reasons_in(source)
    ]
    assert len(found) > 100
    assert [each for each in found if not is_sentence(each[1])] == []


def reasons_in(source: str) -> Iterator[tuple[int, str]]:
    """The literal reasons, with \0 for what is inserted."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or ast.unparse(node.func) not in ("FieldProblem", "InvalidRequest.field"):
            continue
        given = [*node.args[1:2], *(keyword.value for keyword in node.keywords if keyword.arg == "reason")]
        for value in given:
            if isinstance(value, ast.Constant | ast.JoinedStr):
                parts = value.values if isinstance(value, ast.JoinedStr) else [value]
                yield node.lineno, "".join(str(p.value) if isinstance(p, ast.Constant) else "\0" for p in parts)


def is_sentence(reason: str) -> bool:
    begins = reason[0].isupper() or reason[0] in "\0'`"
    return begins and reason[-1] in ".\0" and " " in reason.strip("\0")


@pytest.mark.parametrize(
    ("reason", "is_whole"),
    [
        ("This slug is already in use.", True),
        ("\0 is not a slug.", True),
        ("There are: \0", True),
        ("is already in use.", False),
        ("This slug is already in use", False),
        ("Required.", False),
    ],
)
def test_a_part_of_a_sentence_would_be_found(reason: str, is_whole: bool) -> None:
    assert is_sentence(reason) is is_whole


def test_reasons_are_found_in_both_calls() -> None:
    source = """
FieldProblem("slug", "One.")
InvalidRequest.field(name, f"Two {value} three.")
FieldProblem(name, reason)
InvalidRequest.field(field=name, reason="Four.")
"""
    assert [reason for _, reason in reasons_in(source)] == ["One.", "Two \0 three.", "Four."]
