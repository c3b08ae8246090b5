"""The base class of nodes: a small class that describes its inputs and outputs, and runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from callsheet_lightbox.folders import Folders
from callsheet_lightbox.media.frames import Frame

# A type name such as IMAGE, or the choices of a list.
Kind = str | tuple[str, ...]
NUMBER_LIMIT = 0xFFFFFFFFFFFFFFFF


@dataclass(frozen=True)
class NodeInput:
    kind: Kind
    # None if ComfyUI lists the type alone.
    options: Mapping[str, Any] | None = None
    optional: bool = False

    @property
    def config(self) -> list[Any]:
        """The description of ComfyUI in `/object_info` and in its error messages."""
        kind = list(self.kind) if isinstance(self.kind, tuple) else self.kind
        return [kind] if self.options is None else [kind, dict(self.options)]

    @property
    def choices(self) -> tuple[str, ...] | None:
        if isinstance(self.kind, tuple):
            return self.kind
        return tuple((self.options or {}).get("options", ())) if self.kind == "COMBO" else None


@dataclass(frozen=True)
class NodeOutput:
    kind: str
    name: str


@dataclass(frozen=True)
class Blocker:
    """A value that stops the nodes it reaches without failing the run."""

    message: str | None


@dataclass(frozen=True)
class Result:
    values: tuple[Any, ...] = ()
    # The content of `/history` and of the `executed` message.
    shown: Mapping[str, list[Any]] | None = None


class NodeContext(Protocol):
    """The interface of a running node to the engine."""

    folders: Folders
    prompt: Mapping[str, Any]
    extra_pnginfo: Any
    previews: bool

    def check(self) -> None:
        """Raises if the run was interrupted."""

    def progress(self, value: int, total: int, image: Frame | None = None, always: bool = False) -> None:
        """Reports the progress of the node. The image is sent as a preview if previews are requested, or with
        `always`.
        """


class Node:
    """One kind of node. The attributes are the content of `/object_info`."""

    name: ClassVar[str]
    display_name: ClassVar[str | None] = None
    description: ClassVar[str] = ""
    category: ClassVar[str] = "image"
    module: ClassVar[str] = "custom_nodes.lightbox"
    inputs: ClassVar[Mapping[str, NodeInput]] = {}
    outputs: ClassVar[tuple[NodeOutput, ...]] = ()
    is_output: ClassVar[bool] = False
    # Whether the node needs the graph and extra_pnginfo for the metadata of its file.
    writes_metadata: ClassVar[bool] = False
    # ComfyUI describes its newer nodes with more keys.
    newer_schema: ClassVar[bool] = False
    experimental: ClassVar[bool] = False
    # Inputs that `refuse` checks instead of the list of choices.
    judged: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def input_config(cls, name: str, folders: Folders) -> list[Any]:
        """The description for `/object_info`; overridden if the choices are files."""
        return cls.inputs[name].config

    @classmethod
    def choices_of(cls, name: str, folders: Folders) -> tuple[str, ...] | None:
        """The accepted choices of an input; overridden if they are files."""
        return cls.inputs[name].choices

    @classmethod
    def refuse(cls, name: str, value: Any, folders: Folders) -> str | None:
        """Why a checked input cannot be used, or None."""
        return None

    @classmethod
    def fingerprint(cls, values: Mapping[str, Any], folders: Folders) -> Any:
        """A value that changes if the node must run again with the same inputs."""
        return None

    # Takes the context and, by name, the given inputs.
    run: ClassVar[Callable[..., Result]]


@dataclass(frozen=True)
class NodeRegistry:
    """The nodes of one engine."""

    nodes: Mapping[str, type[Node]] = field(default_factory=dict)

    def describe(self, name: str, folders: Folders) -> dict[str, Any]:
        """One entry of `/object_info`."""
        node = self.nodes[name]
        required = {key: node.input_config(key, folders) for key, each in node.inputs.items() if not each.optional}
        optional = {key: node.input_config(key, folders) for key, each in node.inputs.items() if each.optional}
        kinds_of_hidden = {"prompt": "PROMPT", "extra_pnginfo": "EXTRA_PNGINFO"} if node.writes_metadata else {}
        hidden = {key: [kind] if node.newer_schema else kind for key, kind in kinds_of_hidden.items()}
        inputs: dict[str, Mapping[str, Any]] = {"required": required}
        inputs |= {key: each for key, each in (("optional", optional), ("hidden", hidden)) if each}
        kinds, names = [each.kind for each in node.outputs], [each.name for each in node.outputs]
        newer = {"output_tooltips": [None] * len(kinds), "output_matchtypes": None} if node.newer_schema else {}
        flags = {"deprecated": False, "experimental": node.experimental, "api_node": False} if node.newer_schema else {}
        return {
            "input": inputs,
            "input_order": {key: list(each) for key, each in inputs.items()},
            "output": kinds,
            "output_is_list": [False] * len(kinds),
            "output_name": names,
            **newer,
            "name": name,
            "display_name": node.display_name if node.display_name or node.newer_schema else name,
            "description": node.description,
            "python_module": node.module,
            "category": node.category,
            "output_node": node.is_output,
            **flags,
        }
