"""The errors of pydantic as sentences for people. Its own messages name types of Python, which are not the client's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from callsheet.wire.forms import sentence_of_pattern
from callsheet.wire.plurals import counted

REQUIRED: Final = "This field is required."
NO_SUCH_FIELD: Final = "This request has no such field."
# For errors that no sentence below describes. A test checks that each error that pydantic knows has one.
INVALID: Final = "The value is not valid."

UNFIT: Final = "The text has a character that it cannot have, or begins with one it cannot begin with."

_OBJECT = "The value must be an object."
_LIST = "The value must be a list."
_STRING = "The value must be a string."
_WHOLE = "The value must be a whole number."
_NUMBER = "The value must be a number."
_DATE = "The value must be a date, for example 2026-05-01."
_MOMENT = "The value must be a date and time with its zone, for example 2026-05-01T12:00:00Z."
_TIME = "The value must be a time, for example 12:00:00."
_DURATION = "The value must be a duration in seconds, or for example PT1H30M."
_URL = "The value must be a URL, for example https://host.example/path."
_UUID = "The value must be a UUID, for example 0190a3c5-7e1b-7c3a-9d2e-4f5a6b7c8d9e."


def _each(types: str, sentence: str) -> Iterable[tuple[str, str]]:
    return ((each, sentence) for each in types.split())


_SENTENCES: Final[Mapping[str, str]] = dict(
    [
        *_each("missing missing_argument missing_keyword_only_argument missing_positional_only_argument", REQUIRED),
        *_each(
            "extra_forbidden unexpected_keyword_argument unexpected_positional_argument",
            f"{NO_SUCH_FIELD} Check the spelling, or leave it out.",
        ),
        *_each(
            "model_type model_attributes_type dataclass_type dataclass_exact_type named_tuple_type dict_type "
            "frozen_dict_type ordered_dict_type counter_type mapping_type arguments_type get_attribute_error "
            "no_such_attribute",
            _OBJECT,
        ),
        *_each("list_type deque_type tuple_type set_type frozen_set_type iterable_type iteration_error", _LIST),
        *_each("string_type json_type bytes_type", _STRING),
        *_each("string_unicode bytes_invalid_encoding", "The text is not valid UTF-8."),
        *_each("int_type int_parsing int_from_float", _WHOLE),
        *_each("float_type float_parsing decimal_type decimal_parsing fraction_type fraction_parsing", _NUMBER),
        *_each("complex_type complex_str_parsing", _NUMBER),
        *_each("bool_type bool_parsing", "The value must be true or false."),
        *_each("date_type date_parsing date_from_datetime_parsing date_from_datetime_inexact", _DATE),
        *_each("datetime_type datetime_parsing datetime_object_invalid datetime_from_date_parsing", _MOMENT),
        *_each("timezone_aware timezone_offset", _MOMENT),
        *_each("time_type time_parsing", _TIME),
        *_each("time_delta_type time_delta_parsing", _DURATION),
        *_each("url_type url_parsing url_syntax_violation", _URL),
        *_each("uuid_type uuid_parsing uuid_version", _UUID),
        *_each("date_past datetime_past", "The value must be in the past."),
        *_each("date_future datetime_future", "The value must be in the future."),
        *_each("recursion_loop recursion_depth_exceeded", "The value is nested too deeply."),
        *_each("frozen_field frozen_instance", "This field cannot be changed."),
        *_each(
            "is_instance_of is_subclass_of callable_type needs_python_object default_factory_not_called "
            "multiple_argument_values missing_sentinel_error ellipsis_error assertion_error",
            INVALID,
        ),
    ],
    json_invalid="The value is not valid JSON.",
    invalid_key="The names of fields must be strings.",
    none_required="The value must be null. Leave this field out.",
    int_parsing_size="The number has too many digits.",
    finite_number="The number must be finite.",
    string_not_ascii="The text must have ASCII characters only.",
    set_item_not_hashable="The list must not contain lists or objects.",
    timezone_naive="The time must not have a time zone.",
    greater_than="The value must be greater than {gt}.",
    greater_than_equal="The value must be greater than or equal to {ge}.",
    less_than="The value must be less than {lt}.",
    less_than_equal="The value must be less than or equal to {le}.",
    multiple_of="The value must be a multiple of {multiple_of}.",
    enum="The value must be {expected}.",
    literal_error="The value must be {expected}.",
    union_tag_invalid="The field {discriminator} must be one of {expected_tags}.",
    union_tag_not_found="The object must have the field {discriminator}.",
    url_scheme="The URL must start with {expected_schemes}.",
)
# Values with a least or largest size: the subject, the name of the size in the error, and what is counted.
_SIZES: Final[Mapping[str, tuple[str, str, str]]] = {
    "too_short": ("The list must have at least", "min_length", "item"),
    "too_long": ("The list must have at most", "max_length", "item"),
    "string_too_short": ("The text must have at least", "min_length", "character"),
    "string_too_long": ("The text must have at most", "max_length", "character"),
    "bytes_too_short": ("The value must have at least", "min_length", "byte"),
    "bytes_too_long": ("The value must have at most", "max_length", "byte"),
    "url_too_long": ("The URL must have at most", "max_length", "character"),
    "decimal_max_digits": ("The number must have at most", "max_digits", "digit"),
    "decimal_max_places": ("The number must have at most", "decimal_places", "decimal place"),
    "decimal_whole_digits": ("The number must have at most", "whole_digits", "digit"),
}


def reason_of(error: Mapping[str, Any]) -> str:
    """One of pydantic's errors as a sentence for people. It needs the context of the error."""
    kind, context = error["type"], error.get("ctx", {})
    if kind == "value_error":
        return as_sentence(text_of_validator(error))
    if kind == "string_pattern_mismatch":
        return (
            sentence_of_pattern(context.get("pattern"))
            or "The text has a character that it cannot have, or begins with one it cannot begin with."
        )
    if kind in _SIZES:
        beginning, size, noun = _SIZES[kind]
        subject = beginning.replace("list", "object") if context.get("field_type") == "Dictionary" else beginning
        return f"{subject} {counted(context[size], noun)}."
    return _SENTENCES.get(kind, INVALID).format_map(context)


def text_of_validator(error: Mapping[str, Any]) -> str:
    """The sentence of a validator of ours, which raises ValueError. Python and libraries raise subclasses of it."""
    raised = error.get("ctx", {}).get("error")
    return str(raised) if type(raised) is ValueError else INVALID


def as_sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}"
