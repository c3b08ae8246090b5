"""Nodes for text, and for any value as text."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from callsheet_lightbox.node import Node, NodeContext, NodeInput, NodeOutput, Result

STRING = NodeOutput("STRING", "STRING")


class PrimitiveString(Node):
    name = "PrimitiveString"
    display_name = "String"
    category = "utils/primitive"
    module = "comfy_extras.nodes_primitive"
    newer_schema = True
    inputs: ClassVar = {"value": NodeInput("STRING", {"multiline": False})}
    outputs = (STRING,)

    def run(self, context: NodeContext, *, value: str) -> Result:
        return Result((value,))


class StringConcatenate(Node):
    name = "StringConcatenate"
    display_name = "Concatenate"
    category = "utils/string"
    module = "comfy_extras.nodes_string"
    newer_schema = True
    inputs: ClassVar = {
        "string_a": NodeInput("STRING", {"multiline": True}),
        "string_b": NodeInput("STRING", {"multiline": True}),
        "delimiter": NodeInput("STRING", {"multiline": False, "default": ""}),
    }
    outputs = (STRING,)

    def run(self, context: NodeContext, *, string_a: str, string_b: str, delimiter: str) -> Result:
        return Result((f"{string_a}{delimiter}{string_b}",))


class PreviewAny(Node):
    name = "PreviewAny"
    display_name = "Preview as Text"
    category = "utils"
    module = "comfy_extras.nodes_preview_any"
    is_output = True
    inputs: ClassVar = {"source": NodeInput("*", {})}

    def run(self, context: NodeContext, *, source: Any) -> Result:
        if isinstance(source, str):
            text = source
        elif isinstance(source, int | float | bool):
            text = str(source)
        else:
            try:
                text = json.dumps(source)
            except (TypeError, ValueError):
                text = repr(source)
        return Result(shown={"text": [text]})


NODES: tuple[type[Node], ...] = (PrimitiveString, StringConcatenate, PreviewAny)
