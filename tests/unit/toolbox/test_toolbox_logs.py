import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from callsheet.toolbox.logs import configure_logs, current_request_id, get_logger

EARLY = get_logger("made.at.import")
Read = Callable[[], list[dict[str, Any]]]


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    root, before = logging.getLogger(), structlog.get_config()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    logging.captureWarnings(False)
    structlog.reset_defaults()
    if structlog.get_config() != before:
        structlog.configure(**before)


class Lines(io.StringIO):
    def parsed(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.getvalue().splitlines()]


@pytest.fixture
def lines() -> Lines:
    stream = Lines()
    configure_logs("info", "json", stream)
    return stream


def test_an_event_is_one_json_line_that_starts_with_time_level_and_name(lines: Lines) -> None:
    get_logger("jobs").info("job.transition", job_id="j1", from_status="queued", to_status="processing")
    (line,) = lines.parsed()
    assert list(line)[:3] == ["ts", "level", "event"]
    assert line.items() >= {"level": "info", "event": "job.transition", "job_id": "j1", "logger": "jobs"}.items()
    assert line["ts"].endswith("Z")
    assert len(line["ts"]) == len("2026-01-01T00:00:00.000Z")
    assert abs((datetime.now(UTC) - datetime.fromisoformat(line["ts"])).total_seconds()) < 60


def test_newlines_stay_inside_their_line(lines: Lines) -> None:
    EARLY.info("first\nsecond\r\u2028", text="a\nb")
    assert lines.getvalue().count("\n") == 1
    assert lines.parsed()[0]["text"] == "a\nb"


def test_bound_context_is_on_every_line_also_of_libraries(lines: Lines) -> None:
    with structlog.contextvars.bound_contextvars(request_id="r1", tenant_id="t1"):
        EARLY.info("ours")
        logging.getLogger("asyncpg").warning("theirs")
    assert [(line["request_id"], line["tenant_id"]) for line in lines.parsed()] == [("r1", "t1")] * 2


@pytest.mark.parametrize(
    ("sent", "known"),
    [
        ("0f6a3c1d9be24c77", True),
        ("01900000-0000-7000-8000-000000000000", True),
        ("aB3dE5gH7jK9mN2pQ4rS6tU8vW0xY1zA", False),
    ],
    ids=["own", "uuid", "secret"],
)
def test_the_current_request_id_equals_the_one_in_the_log(lines: Lines, sent: str, known: bool) -> None:
    assert current_request_id() is None
    with structlog.contextvars.bound_contextvars(request_id=sent):
        EARLY.info("job.created")
        assert current_request_id() == (sent if known else None)
    [line] = lines.parsed()
    assert (line["request_id"] == sent) == known


def test_standard_logging_is_logged_as_json_too(lines: Lines) -> None:
    logging.getLogger("granian.access").warning("GET %s took %d ms", "/healthz", 3)
    (line,) = lines.parsed()
    assert (
        line.items()
        >= {
            "level": "warning",
            "event": "GET /healthz took 3 ms",
            "logger": "granian.access",
        }.items()
    )


def test_python_warnings_are_logged_as_json_too(lines: Lines) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)
        warnings.warn("old ways", DeprecationWarning, stacklevel=1)
    assert "old ways" in lines.parsed()[0]["event"]


def test_exceptions_are_text_in_the_field_exception(lines: Lines) -> None:
    try:
        raise LookupError("no postgresql://bob:hunter2@db/central")
    except LookupError:
        EARLY.exception("ours")
        logging.getLogger("asyncpg").exception("theirs")
    for line in lines.parsed():
        assert line["level"] == "error"
        assert line["exception"].startswith("Traceback (most recent call last)")
        assert line["exception"].endswith("LookupError: no postgresql://bob:***@db/central")
        assert "exc_info" not in line


def test_lines_below_the_level_are_not_written() -> None:
    stream = Lines()
    configure_logs("warning", "json", stream)
    EARLY.info("no")
    logging.getLogger("some").info("no")
    EARLY.warning("yes")
    logging.getLogger("some").warning("yes")
    assert [line["event"] for line in stream.parsed()] == ["yes", "yes"]


def test_http_clients_do_not_log_urls_at_info(lines: Lines) -> None:
    logging.getLogger("httpx").info("HTTP Request: GET https://bucket/key?X-Amz-Signature=abc")
    assert lines.getvalue() == ""


def test_a_second_configuration_replaces_the_first_also_for_loggers_in_use(lines: Lines) -> None:
    EARLY.info("first")
    second = Lines()
    configure_logs("info", "json", second)
    EARLY.info("second")
    logging.getLogger("some").info("second")
    assert [line["event"] for line in lines.parsed()] == ["first"]
    assert [line["event"] for line in second.parsed()] == ["second", "second"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_auto_is_text_on_a_terminal_and_json_elsewhere() -> None:
    terminal, pipe = Terminal(), Lines()
    configure_logs("info", "auto", terminal)
    EARLY.info("hello", password="hunter2")
    configure_logs("info", "auto", pipe)
    EARLY.info("hello")
    assert "hello" in terminal.getvalue()
    assert "hunter2" not in terminal.getvalue()
    assert not terminal.getvalue().startswith("{")
    assert pipe.parsed()[0]["event"] == "hello"


@pytest.mark.parametrize("format", ["json", "console"])
@pytest.mark.parametrize("make", [io.StringIO, Terminal])
def test_text_from_requests_cannot_start_a_line_or_control_the_terminal(
    format: Literal["json", "console"], make: type[io.StringIO]
) -> None:
    """Text as it comes from the path of a request, `/%0a%1b[2J`, and from a library's message."""
    text_of_attacker = "a\nb\r\x1b]0;title\x07\x1b[2J\x00\x08\x7f\x85\x9b\u2028\u202e\u200b"
    plain, hostile = make(), make()
    for stream, text in ((plain, "a"), (hostile, text_of_attacker)):
        configure_logs("info", format, stream)
        get_logger("http").info("http.request", path=text, nested={"deep": [text]}, **{text: 1})
        get_logger("http").info(text)
        logging.getLogger("library").warning("%s", text)
    # Colours are our own, the same for any text.
    own = set(plain.getvalue())
    foreign = {letter for letter in hostile.getvalue() if not letter.isprintable()} - own
    assert foreign == set()
    assert hostile.getvalue().count("\n") == plain.getvalue().count("\n") == 3
    assert hostile.getvalue().count("\x1b") == plain.getvalue().count("\x1b")


def test_the_console_shows_tracebacks_without_local_variables() -> None:
    terminal = Terminal()
    configure_logs("info", "console", terminal)
    password = "hunter" + "2"
    try:
        raise LookupError(len(password))
    except LookupError:
        EARLY.exception("failed")
    assert "LookupError: 7" in terminal.getvalue()
    assert "hunter2" not in terminal.getvalue()


class Broken:
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


def test_any_value_can_be_logged(lines: Lines) -> None:
    circle: dict[object, object] = {}
    circle["self"] = circle
    EARLY.info(
        "odd",
        broken=Broken(),
        circle=circle,
        keys={(1, 2): 1, None: 2, Broken(): 3},
        nested={"fine": [1, Broken()]},
        number=float("nan"),
        big=10**5000,
        raw=b"\xff\x00",
        surrogate="\ud800",
        path=Path("/tmp/x"),
        id=UUID(int=7),
        when=datetime(2026, 1, 1, tzinfo=UTC),
        error=ValueError("bad"),
        secret_value=SecretStr("hunter2"),
        values={3},
    )
    (line,) = lines.parsed()
    assert line["broken"] == "<unprintable Broken>"
    assert line["number"] == "nan"
    assert line["path"] == "/tmp/x"
    assert line["id"] == "00000000-0000-0000-0000-000000000007"
    assert line["when"] == "2026-01-01T00:00:00+00:00"
    assert line["error"] == "ValueError('bad')"
    assert line["values"] == [3]
    assert "hunter2" not in lines.getvalue()


JSON_LIKE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner, inner),
    max_leaves=10,
)


@given(st.text(st.characters()), JSON_LIKE)
def test_any_value_is_logged_as_one_valid_line(event: str, value: object) -> None:
    stream = Lines()
    configure_logs("info", "json", stream)
    EARLY.info(event, value=value)
    assert len(stream.getvalue().split("\n")) == 2
    assert json.loads(stream.getvalue(), parse_constant=pytest.fail)["level"] == "info"


class Full(io.StringIO):
    def write(self, _: str) -> int:
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("stream", [Full(), io.StringIO()], ids=["full disk", "closed"])
def test_a_stream_that_cannot_be_written_does_not_stop_the_work(stream: io.StringIO) -> None:
    if not isinstance(stream, Full):
        stream.close()
    configure_logs("info", "auto", stream)
    EARLY.info("lost")
    logging.getLogger("some").info("lost")
    after = Lines()
    configure_logs("info", "json", after)
    EARLY.info("written")
    assert [line["event"] for line in after.parsed()] == ["written"]


@pytest.mark.parametrize("format", ["json", "console"])
def test_an_aws_key_is_in_no_log_line_wherever_an_engine_put_it(format: Literal["json", "console"]) -> None:
    key, stream = "AKIAIOSFODNN7EXAMPLE", io.StringIO()
    configure_logs("info", format, stream)
    error = RuntimeError(f"denied for {key}\n{key}")
    EARLY.warning(
        "job.failed", reason=str(error), repeated=repr(error), exc_info=error, text_of_attacker=[key, {key: key}]
    )
    logging.getLogger("engine").error("\x1b[31m%s\x1b[0m", key, exc_info=error)
    assert stream.getvalue().count("***") > 6
    assert "AKIA" not in stream.getvalue()
