"""Structured logs: one line per event of Callsheet and of every library, without secrets."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, lru_cache, partial
from typing import Any, Literal, TextIO, cast

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from callsheet.toolbox.redaction.redaction import redact

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["auto", "json", "console"]

# These libraries log whole URLs at INFO, including the signatures of signed URLs, and every packet at DEBUG.
_CHATTY = ("httpx", "httpcore", "botocore", "urllib3", "websockets", "hpack")
# This library warns with a traceback for every failed connection; the caller logs the outage.
_REPEATING = ("asyncpg.pool",)


# The length of an id of a job or a request, and a little more.
SHORT = 40


def get_logger(name: str) -> FilteringBoundLogger:
    """A logger whose lines contain `logger: name`. It may be created at import, before `configure_logs`."""
    return cast("FilteringBoundLogger", structlog.get_logger(name))


def note_failure(log: FilteringBoundLogger, failures: int) -> Callable[..., Any]:
    """The method that logs a failed attempt, the first with `failures` 1. The first one is information only, because
    the next attempt a moment later usually succeeds.
    """
    return log.info if failures == 1 else log.warning


def current_request_id() -> str | None:
    """The id of the current HTTP request, as in its log lines. None in background loops, and if the caller sent an
    id that looks like a secret: the log shows `***` instead.
    """
    request_id = structlog.contextvars.get_contextvars().get("request_id")
    # The next line of the log finds the redacted id in the cache.
    return request_id if request_id is not None and _redacted(request_id, "request_id") == request_id else None


def configure_logs(level: Level = "info", format: Format = "auto", stream: TextIO | None = None) -> None:
    """Sends all logs of this process to `stream` (default: standard error). It may be called again."""
    threshold = getattr(logging, level.upper())
    output = _Output(stream or sys.stderr)
    render = _renderer(format, output)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.stdlib.add_logger_name,
            *render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=cache(partial(_NamedLogger, cast("TextIO", output))),
        # Caching would tie every module's logger to the first configuration, and a second one (another stream, another
        # level) would be ignored. It saves about 1 of the 15 µs of a line.
        cache_logger_on_first_use=False,
    )
    _route_standard_logging(threshold, output, render)


def _route_standard_logging(threshold: int, output: _Output, render: list[Processor]) -> None:
    handler = _StandardHandler(cast("TextIO", output))
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[
                structlog.contextvars.merge_contextvars,
                structlog.stdlib.add_log_level,
                structlog.stdlib.add_logger_name,
            ],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *render],
        )
    )
    root = logging.getLogger()
    # Only our own earlier handler is removed: others (of a test or a debugger) were added on purpose.
    root.handlers[:] = [kept for kept in root.handlers if not isinstance(kept, _StandardHandler)] + [handler]
    root.setLevel(threshold)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(threshold, logging.WARNING))
    for name in _REPEATING:
        logging.getLogger(name).setLevel(max(threshold, logging.ERROR))
    logging.captureWarnings(True)


class _NamedLogger(structlog.WriteLogger):
    def __init__(self, file: TextIO, name: str = "") -> None:
        super().__init__(file)
        self.name = name


class _StandardHandler(logging.StreamHandler[TextIO]):
    """Marks the handler that `configure_logs` installed."""


class _Output:
    """The stream, to which any thread writes whole lines. A full disk or a closed pipe loses lines, but does not
    stop the work. None if the process was started without standard error (`2>&-`).
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def write(self, line: str) -> int:
        if self._stream is None:
            return 0
        with self._lock:
            try:
                written = self._stream.write(line)
                self._stream.flush()
            except (OSError, ValueError):
                return 0
        return written

    def flush(self) -> None:
        """Does nothing, because `write` flushes."""

    def isatty(self) -> bool:
        try:
            return self._stream is not None and self._stream.isatty()
        except (OSError, ValueError):
            return False


def _renderer(format: Format, output: _Output) -> list[Processor]:
    steps: list[Processor] = [_with_traceback, _clean]
    if format == "json" or (format == "auto" and not output.isatty()):
        return [*steps, _json_line]
    console = structlog.dev.ConsoleRenderer(
        colors=output.isatty(),
        timestamp_key="ts",
        # Pretty tracebacks print local variables, which may be passwords.
        exception_formatter=structlog.dev.plain_traceback,
    )
    return [*steps, _visible, cast("Processor", console)]


_render_stack = structlog.processors.StackInfoRenderer()


def _with_traceback(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Adds the traceback. Few lines have one, so the others skip this."""
    if "exc_info" in event:
        event = structlog.processors.format_exc_info(logger, method, event)
    return _render_stack(logger, method, event) if "stack_info" in event else event


def _visible(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Escapes control characters, which JSON does anyway. For example, the path of a request is untrusted text: it
    must not start a new line or control the terminal. Tracebacks keep their lines.
    """
    return {
        _written_out(key): _written_out(value, kept="\n" if key in ("exception", "stack") else "")
        if isinstance(value, str)
        else value
        for key, value in event.items()
    }


def _written_out(text: str, kept: str = "") -> str:
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter in kept else letter.encode("unicode_escape").decode()
        for letter in text
    )


def _clean(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Puts `ts`, `level` and `event` first and removes all secrets."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    level, name = event.pop("level", "info"), event.pop("event", "")
    cleaned: dict[str, Any] = {"ts": now, "level": level, "event": _redacted(name)}
    for key, value in event.items():
        cleaned.setdefault(key, _redacted(value, key))
    return cleaned


def _redacted(value: object, key: str = "") -> object:
    """The value without secrets. Ids, states and names of events repeat in several lines, so results are cached: a
    check of the letters takes 0.3 to 2 µs.
    """
    return _redact_short(value, key) if type(value) is str and len(value) <= SHORT else redact(value, key)


_redact_short = lru_cache(maxsize=512)(redact)


def _json_line(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    try:
        # This is the only control character that JSON does not escape.
        return json.dumps(event).replace("\x7f", "\\u007f")
    except Exception as error:  # noqa: BLE001 - whatever a value is, logging it must not stop the work
        return json.dumps(
            {key: event[key] for key in ("ts", "level")}
            | {"event": repr(event.get("event")), "unloggable": type(error).__name__}
        )
