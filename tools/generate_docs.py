"""Writes the pages of docs/ that are generated from the code: `python -m tools.generate_docs`.

tests/unit/repository/test_docs.py fails if a page on disk differs from the output of this module;
docs/schema.md, which needs a database, is compared by tests/integration/test_schema_page.py.
"""

from __future__ import annotations

import asyncio
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import typer
from annotated_types import Ge, Gt, Le, MaxLen, MinLen
from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

import callsheet.app.control_plane  # noqa: F401 - for what it imports: every room, and with it every refusal
from callsheet.cli.main import app
from callsheet.jobs.machine.states import PATHS, TRANSITIONS, diagram
from callsheet.operate.alerts.guide import GUIDE, Guide
from callsheet.plumbing.http.problems import STATUS_OF_CODE
from callsheet.settings import Settings, setting_fields, variable_name
from callsheet.toolbox.sections import Section
from callsheet.wire.errors import Refusal
from callsheet_lightbox.node import Node, NodeInput
from callsheet_lightbox.nodes import build_registry
from tools.markdown import GENERATED, table
from tools.schema_page import page_of_a_new_database
from tools.tour import tour_page

ROOT = Path(__file__).parents[1]

SETTINGS_INTRODUCTION = """\
# Settings

Every setting can be given in four places. The first that has it wins:

1. an option of the command, where there is one (`callsheet serve --port 9000`);
2. an environment variable, `CALLSHEET_SERVER__PORT=9000`;
3. the file `.env`, with the same names;
4. the file `callsheet.toml`, or the one that `CALLSHEET_CONFIG` names:

```toml
[server]
port = 9000
```

A setting that may have no value takes `null` or `none`: `CALLSHEET_FLEET__AUDIT_LOG_DAYS=null`, or
`audit_log_days = "null"` in the file.

A value that cannot be used, and a name that is not a setting, stop the start with a sentence that says which and why.
`callsheet settings` lists the values in force, secrets left out.

## Which installation a command works on

Every command uses the first of these that exists. Its settings files come from there too:

1. `CALLSHEET_HOME` in the environment names the data directory. Settings files: those of the working directory; if
   it has none, those in the data directory.
2. The working directory, or the nearest parent directory, that has `.callsheet`, `callsheet.toml`, or an `.env` with
   a line `CALLSHEET_…`. The data directory is its `.callsheet`; the settings files lie beside it.
3. The user's data directory, `~/.local/share/callsheet` (or `$XDG_DATA_HOME/callsheet`; on macOS
   `~/Library/Application Support/callsheet`). It is the data directory, and has the settings files in it.
4. `/etc/callsheet`, on a machine set up with `deploy/systemd/install`. The settings files are `callsheet.env` and
   `callsheet.toml` there; the data directory is `/var/lib/callsheet`.

The files may name another data directory: `CALLSHEET_HOME=…` in `.env`, `home = "…"` in `callsheet.toml`. A relative
path starts at the directory of the file. The search in parent directories ends at your home directory. Files and
directories of another user (neither you nor root) are not used, and a note says so, because anyone may write to `/tmp`.

The option `-v` of every command prints which place was used. Only `callsheet serve`, `up`, `demo` and
`db migrate --create` create an installation: in the place that was found, otherwise in `.callsheet` in the working
directory.
"""

ALERTS_INTRODUCTION = """\
# Alerts

Every control plane checks every 15 seconds what needs an operator. The alerts that hold are shown in the web
application (a banner and the page Operate), by `callsheet alerts` and by `GET /api/admin/alerts`. `/metrics` has them
as `callsheet_alert`. The log has a line when an alert starts (`alert.started`) and when it ends (`alert.ended`).
[Send alerts to people](how-to/operate.md#send-alerts-to-people) by a webhook or e-mail.

An alert has a message about the case at hand and what to do about it. This table says what each kind means.
"""

ERRORS_INTRODUCTION = """\
# Errors

A refused request gets a response of type `application/problem+json` (RFC 9457):

```json
{
  "type": "urn:callsheet:error:invalid_request",
  "title": "The request has fields that are missing, unknown or wrong.",
  "status": 422,
  "code": "invalid_request",
  "detail": "name: This field is required.",
  "errors": [{"field": "name", "reason": "This field is required."}],
  "request_id": "0f6a3c1d9be24c77"
}
```

Match on `code`: it stays. The texts may change. `errors` names each field and what is wrong with it; some codes
add members of their own, such as `limit_bytes` or `retry_after_seconds`. `request_id` is also in the header
`X-Request-Id` and in the log, so that you can find the request in the log.
"""

STATES_INTRODUCTION = """\
# The states of a job

One table in one module, `jobs/machine/states.py`, from which this page is made too. Everything that changes a job's
status goes through one SQL statement that takes its steps from there; what is not in the table is refused with
`invalid_transition`. Each transition, and each refusal, is an event in the job's history and a line in the log.
"""

HAPPENINGS_INTRODUCTION = """\
## What can happen to a job

A step that was missed on the way, because a process ended between two commits, is taken and recorded as its own: a job
that is started while it is still pending becomes queued and then processing.
"""


LIGHTBOX_INTRODUCTION = """\
# The nodes of Lightbox

Lightbox (`callsheet lightbox`) runs graphs in ComfyUI's API format. A node with the name of a ComfyUI node has the
same inputs and outputs, so a graph of such nodes runs on both. A node whose name begins with `Lightbox` exists only
here. Images and sound flow frame by frame from the file that is read to the file that is written, however long a video
is.

Each input is shown with its default or its choices; *(optional)* ones may be left out. Nodes that save are marked.
Formats that have no sound (GIF, animated WebP and PNG) leave it out; MP4 and WebM keep it.
"""


def pages() -> dict[Path, str]:
    """Every page that is generated from the code alone, by path."""
    docs = ROOT / "docs"
    return {
        docs / "cli.md": cli_page(),
        docs / "settings.md": settings_page(),
        docs / "errors.md": errors_page(),
        docs / "alerts.md": alerts_page(),
        docs / "states.md": states_page(),
        docs / "lightbox.md": lightbox_page(),
        docs / "tour.md": tour_page(),
    }


CLI_INTRODUCTION = """\
# The command line

`callsheet -h` lists the commands, and `-h` behind any command shows its arguments and options. Every command has `-v`
(`--verbose`), which says which installation or control plane it uses, and `-q` (`--quiet`), which prints results and
errors only.

There are two kinds of commands:

- Commands that **administer an installation** (`callsheet users`, `callsheet db`, `callsheet doctor` …) work on its
  data directory and databases, on the machine of the control plane.
  [How they find it](settings.md#which-installation-a-command-works-on).
- Commands that **talk to a control plane** over HTTP (`callsheet submit`, `callsheet jobs`, `callsheet queue` …) work
  from any machine with an API key. They have the options `--url` and `--profile`.

## Log in, and use several control planes

```sh
callsheet login https://callsheet.example.com                    # asks for the API key
callsheet login https://staging.example.com --profile staging
callsheet jobs list --profile staging
callsheet profiles use default
```

A profile is a URL and an API key. They are kept in `~/.config/callsheet/profiles.json` (in `$XDG_CONFIG_HOME/callsheet`
if that is set; on macOS in `~/Library/Application Support/callsheet`), which only you can read. A command uses the
first of these:

1. the profile that `--profile` or `CALLSHEET_PROFILE` names;
2. `CALLSHEET_CLIENT__API_KEY`, with `CALLSHEET_CLIENT__URL` (for programs and CI);
3. the current profile: the last one you logged in with or chose with `callsheet profiles use`;
4. the demo of the directory you are in. Its profile is called `demo`: `--profile demo` chooses it at any time.

An API key is only sent to the URL it was kept for. With `--url`, the profile of that URL is used.

## JSON and exit codes

With `--json` a command prints one line of JSON on standard output. When it fails, it prints one JSON object on standard
error: `code` (for refusals of the control plane as in [errors](errors.md), otherwise `no_installation`,
`invalid_settings`, `wrong_usage` or `failed`), `detail` (the sentence that people see) and `errors` (fields and
reasons).

| exit code | meaning |
|---|---|
| 0 | It worked. |
| 1 | It was refused or failed, or a check found a problem (`doctor`, `wallet audit`, `alerts`). |
| 2 | The arguments or options are wrong. |
| 130 | It was stopped with Ctrl-C. |

Two commands have exit codes of their own: `callsheet db shell` returns that of `psql`, and `callsheet worker` can exit
with 83 after a drain (see [run a fleet](how-to/run-a-fleet.md)).

On a terminal, tables fit its width and times are relative ("3 min ago"). Into a pipe, each row is one line and times
are in ISO 8601.

## Completion

```sh
callsheet --install-completion     # for the shell you are in: bash, zsh or fish
callsheet --show-completion        # prints the script, to install it yourself
```

Open a new shell after that. In zsh, completion needs `autoload -Uz compinit && compinit` in `~/.zshrc`.
"""

COMMON_OPTIONS = {"help", "verbose", "quiet", "profile", "url"}


def cli_page() -> str:
    root = typer.main.get_command(app)
    panels: dict[str, list[str]] = {}
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        panels.setdefault(command.rich_help_panel, []).extend(_command_parts(command, (name,)))
    parts = [GENERATED, CLI_INTRODUCTION]
    for panel, sections in panels.items():
        parts += [f"## {panel}\n", *sections]
    return "\n".join(parts)


def _command_parts(command: Any, names: tuple[str, ...]) -> Iterator[str]:
    children = getattr(command, "commands", None)
    if children is not None:
        for name, child in children.items():
            yield from _command_parts(child, (*names, name))
        return
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    usage = " ".join(["callsheet", *names, *map(_argument_text, arguments)])
    yield f"### `{usage}`\n\n{' '.join((command.help or '').split())}\n"
    rows = [
        (f"`{_option_text(each)}`", " ".join((each.help or "").split()))
        for each in command.params
        if each.name not in COMMON_OPTIONS and (each.help or each.param_type_name == "option")
    ]
    if rows:
        yield table(("argument or option", "what it does"), rows)


def _argument_text(argument: Any) -> str:
    name = (argument.metavar or argument.name.upper()).strip("[].")
    repeated = "..." if argument.nargs != 1 else ""
    return f"{name}{repeated}" if argument.required else f"[{name}{repeated}]"


def _option_text(param: Any) -> str:
    if param.param_type_name == "argument":
        return _argument_text(param)
    names = ", ".join([*param.opts, *param.secondary_opts])
    return names if param.is_flag else f"{names} {param.metavar or 'VALUE'}"


def settings_page() -> str:
    parts = [GENERATED, SETTINGS_INTRODUCTION]
    for section, fields in groupby(setting_fields(), lambda leaf: leaf[0][:-1]):
        parts += [f"## {_section_title(section)}\n", table(SETTING_COLUMNS, map(_setting_row, fields))]
    for path, field in setting_fields():
        if rows := [_table_row(*leaf) for leaf in _members(field.annotation, path)]:
            title = f"## Each of `{'.'.join(path)}`\n"
            parts += [title, TABLE_INTRODUCTION, table(TABLE_COLUMNS, rows)]
    return "\n".join(parts)


def errors_page() -> str:
    refusals = sorted(_refusals(Refusal), key=lambda refusal: (STATUS_OF_CODE[refusal.code], refusal.code))
    rows = [(f"`{refusal.code}`", str(STATUS_OF_CODE[refusal.code]), refusal.title()) for refusal in refusals]
    return "\n".join([GENERATED, ERRORS_INTRODUCTION, table(("code", "status", "what it says"), rows)])


def alerts_page() -> str:
    rows = [(f"`{code}`", guide.meaning, _with_page(guide)) for code, guide in sorted(GUIDE.items())]
    return f"{GENERATED}\n\n{ALERTS_INTRODUCTION}\n" + table(("alert", "what it means", "what to do"), rows)


def _with_page(guide: Guide) -> str:
    return f"{guide.steps} ([more]({guide.page}))" if guide.page else guide.steps


def states_page() -> str:
    transitions = [(origin or "(new)", status, when) for (origin, status), when in TRANSITIONS.items()]
    happenings = [
        (f"`{happening}`", origin, " → ".join([origin, *(step.to_status for step in steps)]))
        for happening, paths in PATHS.items()
        for origin, steps in paths.items()
    ]
    return "\n".join(
        [
            GENERATED,
            STATES_INTRODUCTION,
            f"```mermaid\n{diagram()}\n```\n",
            table(("from", "to", "when"), transitions),
            HAPPENINGS_INTRODUCTION,
            table(("what happens", "in", "leads through"), happenings),
        ]
    )


TABLE_INTRODUCTION = """\
`NAME` is a name of your choice. A variable works here too: `providers.http.leonardo.secret` is
`CALLSHEET_PROVIDERS__HTTP__LEONARDO__SECRET`.
"""
TABLE_COLUMNS = ("in TOML", "default", "allowed", "what it does")


def lightbox_page() -> str:
    nodes = sorted(build_registry().nodes.values(), key=lambda node: (node.category, node.name))
    parts = [GENERATED, LIGHTBOX_INTRODUCTION]
    for category, members in groupby(nodes, lambda node: node.category):
        parts += [f"## {category}\n", table(("node", "takes", "gives"), map(_node_row, members))]
    return "\n".join(parts)


def _node_row(node: type[Node]) -> tuple[str, ...]:
    name = f"`{node.name}`" + (f" ({node.display_name})" if node.display_name else "")
    taken = "<br>".join(_input_text(key, each) for key, each in node.inputs.items())
    given = ", ".join(f"{each.name} ({each.kind})" if each.name != each.kind else each.kind for each in node.outputs)
    return name, taken or "nothing", ", ".join(filter(None, (given, "*saves*" if node.is_output else "")))


def _input_text(name: str, given: NodeInput) -> str:
    options = given.options or {}
    choices = given.choices
    if choices is not None:
        kind_of_input = ", ".join(f"`{choice}`" for choice in choices) if choices else "a file"
    else:
        kind_of_input = " ".join(filter(None, (str(given.kind), _number_text(options))))
    return f"{name}: {kind_of_input}{' *(optional)*' if given.optional else ''}"


def _number_text(options: Mapping[str, Any]) -> str:
    limits = f"{options['min']} to {options['max']}" if "min" in options and "max" in options else ""
    default = f"`{options['default']}`" if options.get("default") not in (None, "") else ""
    return ", ".join(filter(None, (limits, default)))


SETTING_COLUMNS = ("variable", "in TOML", "default", "allowed", "what it does")


def _setting_row(leaf: tuple[tuple[str, ...], FieldInfo]) -> tuple[str, ...]:
    path, field = leaf
    return (
        f"`{variable_name(path)}`",
        f"`{'.'.join(path)}`",
        _default(field),
        _allowed(field),
        field.description or "",
    )


def _members(annotation: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], FieldInfo]]:
    """Every setting inside a table of settings by name, however deep; none if the annotation is not such a table."""
    if typing.get_origin(annotation) is not dict:
        return
    [_, model] = typing.get_args(annotation)
    if isinstance(model, type) and issubclass(model, Section):
        yield from _inner(model, (*path, "NAME"))


def _inner(model: type[Section], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], FieldInfo]]:
    for name, field in model.model_fields.items():
        annotation: Any = field.annotation
        parts = typing.get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)
        section = next((each for each in parts if _is_section(each)), None)
        deeper = list(_members(annotation, (*path, name)))
        if section is not None:
            yield from _inner(section, (*path, name))
        elif deeper:
            yield from deeper
        else:
            yield (*path, name), field


def _is_section(annotation: object) -> typing.TypeGuard[type[Section]]:
    return isinstance(annotation, type) and issubclass(annotation, Section)


def _table_row(path: tuple[str, ...], field: FieldInfo) -> tuple[str, ...]:
    default = "required" if field.is_required() else _default(field)
    return f"`{'.'.join(path)}`", default, _allowed(field), field.description or ""


def _section_title(section: tuple[str, ...]) -> str:
    """The description of the section in the settings, without its full stop."""
    if not section:
        return "Installation"
    model: Any = Settings
    for name in section:
        field = model.model_fields[name]
        model = field.annotation
    return f"{(field.description or name).rstrip('.')} (`{'.'.join(section)}`)"


def _default(field: FieldInfo) -> str:
    value = field.default
    if value is PydanticUndefined or value is None or value in ("", ()):
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{', '.join(map(str, value)) if isinstance(value, tuple) else value}`"


def _allowed(field: FieldInfo) -> str:
    choices = _choices(field.annotation)
    if choices:
        return ", ".join(f"`{choice}`" for choice in choices)
    return " ".join(filter(None, (_kind(field.annotation), _bounds(field.metadata))))


def _choices(annotation: object) -> tuple[str, ...]:
    return typing.get_args(annotation) if typing.get_origin(annotation) is typing.Literal else ()


def _kind(annotation: object) -> str:
    members = typing.get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)
    names = {int: "whole number", float: "number", bool: "`true` or `false`", SecretStr: "text (secret)", Path: "path"}
    known = [names[member] for member in members if member in names]
    if str in members and known:
        return ", ".join(["text", *known])
    if any(typing.get_origin(member) is dict for member in members):
        return "table"
    return known[0] if known else ("networks" if "Network" in str(annotation) else "text")


def _bounds(metadata: Sequence[object]) -> str:
    minimum = maximum = unit = above = ""
    for bound in metadata:
        match bound:
            case Ge():
                minimum = f"{bound.ge:,}"
            case Gt():
                above = f"above {bound.gt:,}"
            case Le():
                maximum = f"{bound.le:,}"
            case MinLen() if bound.min_length > 1:
                minimum, unit = f"of {bound.min_length}", " characters"
            case MaxLen():
                maximum, unit = f"{bound.max_length}", " characters"
    if minimum and maximum:
        return f"{minimum} to {maximum}{unit}"
    if minimum:
        return f"{minimum}{unit} or more"
    return " ".join(filter(None, (above, f"up to {maximum}{unit}" if maximum else "")))


def _refusals(refusal: type[Refusal]) -> Iterator[type[Refusal]]:
    for child in refusal.__subclasses__():
        # A test may have defined its own refusals.
        if child.__module__.startswith("callsheet."):
            yield child
            yield from _refusals(child)


def main() -> None:
    texts = {**pages(), ROOT / "docs" / "schema.md": asyncio.run(page_of_a_new_database())}
    for file, text in texts.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
