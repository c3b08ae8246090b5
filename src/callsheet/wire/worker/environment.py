"""The environment of engines that a worker reports, and the requirements of a workflow."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from callsheet.wire.base import ResponseModel, Switch, UserRequest, printable
from callsheet.wire.forms import Sha256
from callsheet.wire.worker.protocol import WorkerRequest

# The largest installations of ComfyUI have some thousands of both.
MAX_NODE_CLASSES: Final = 10_000
MAX_MODELS: Final = 5_000
MAX_ENGINES: Final = 64
MAX_REQUIRED: Final = 1_000
MAX_NAME_LENGTH: Final = 300
# In characters: base64 of the compressed forms of all node classes.
MAX_NODE_FORMS_LENGTH: Final = 250_000
# Highest number of shown workflows that a worker cannot run, and of shown missing parts of each.
MAX_SHOWN: Final = 20

CONDITION: Final = re.compile(r"\s*(>=|<=|==|!=|>|<)\s*v?(\d+(?:\.\d+){0,3})\s*")

_CHARACTERS = Field(json_schema_extra={"pattern": r"^[^\x00-\x1f\x7f]+$"})
Name = Annotated[
    str, StringConstraints(min_length=1, max_length=MAX_NAME_LENGTH), BeforeValidator(printable), _CHARACTERS
]


def _conditions(text: str) -> str:
    for condition in text.split(","):
        if not CONDITION.fullmatch(condition):
            raise ValueError(f"Use conditions such as >=0.3.57 or >=0.3.57,<0.8, not {condition.strip()!r}.")
    return text


VersionRange = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=100),
    AfterValidator(_conditions),
    Field(json_schema_extra={"pattern": r"^(\s*(>=|<=|==|!=|>|<)\s*v?\d+(\.\d+){0,3}\s*(,(?!$)|$))+$"}),
]


Base64 = Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$")]


class ReportedModel(WorkerRequest):
    """A model file that an engine offers."""

    name: Name = Field(description="As the engine lists it, with its subfolder.")
    sha256: Sha256 | None = Field(None, description="SHA-256 of the file, if the worker knows it.")


class Environment(WorkerRequest):
    """The inventory of a worker's engines. A field that is left out is not known, and no workflow is refused because
    of it."""

    node_classes: list[Name] | None = Field(
        None, max_length=MAX_NODE_CLASSES, description="All node classes, as in `/object_info`."
    )
    models: list[ReportedModel] | None = Field(
        None, max_length=MAX_MODELS, description="All model files that the loaders offer."
    )
    engine_versions: list[Name] | None = Field(
        None, max_length=MAX_ENGINES, description="Version of each engine, as in `/system_stats`."
    )
    node_forms: Base64 | None = Field(
        None,
        max_length=MAX_NODE_FORMS_LENGTH,
        description="Types, limits and choices of the inputs of all node classes, from `/object_info`, for the import "
        "of workflows: base64 of a JSON object that is compressed with zlib. It has an object for each class, with "
        "`title`, `is_output` and `inputs`. Each input has `kind` (`text`, `integer`, `number`, `boolean`, `choice`, "
        "`image`, `video` or `audio`), and optionally `default`, `min`, `max`, `step`, `choices` and `is_multiline`.",
    )


class RequiredModel(UserRequest):
    name: Name = Field(description="Name as in the graph, with its subfolder.")
    sha256: Sha256 | None = Field(
        None,
        description="Only workers that report this SHA-256 get the jobs. Null: any file with this name is accepted.",
    )


class Requirements(UserRequest):
    """The requirements of an engine to get jobs of a workflow. Default: what the graph names."""

    from_graph: Switch = Field(
        True,
        description="Whether the graph's node classes and model files are required. False: only what is listed here "
        "is required.",
    )
    ignore: list[Name] = Field(
        default_factory=list,
        max_length=MAX_REQUIRED,
        description="Node classes and model files of the graph that an engine does not need.",
    )
    node_classes: list[Name] = Field(
        default_factory=list, max_length=MAX_REQUIRED, description="Additional node classes that are required."
    )
    models: list[RequiredModel] = Field(
        default_factory=list, max_length=MAX_REQUIRED, description="Additional model files that are required."
    )
    engine_version: VersionRange | None = Field(
        None, description="Engine versions that may run the workflow, for example `>=0.3.57,<0.8`. Null: any version."
    )


class Required(ResponseModel):
    """Everything that an engine must have: what the graph names, and what was added to it."""

    node_classes: list[str] = Field(default_factory=list)
    models: list[RequiredModel] = Field(default_factory=list)
    engine_version: str | None = None


LackKind = Literal["node_class", "model", "model_hash", "engine_version", "choice"]


class Lack(ResponseModel):
    """Something that a workflow requires and a worker does not have."""

    kind: LackKind
    name: str = Field(description="The missing class, file or choice of an input, or the required versions.")


class CannotRun(ResponseModel):
    """A workflow that is assigned to a worker, but whose jobs the worker does not get."""

    workflow: str
    lacks: list[Lack] = Field(description="What the worker's engines lack: the first 20, custom nodes first.")


class EnvironmentResponse(ResponseModel):
    cannot_run: list[CannotRun] = Field(
        description="Workflows that are assigned to the worker, but whose jobs it does not get. At most twenty."
    )
