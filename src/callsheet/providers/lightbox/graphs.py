"""The actions of `lightbox`, and the graph of each. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from callsheet.providers.comfy.graphs import checked_graph, refuse_foreign_files
from callsheet.providers.engine import EngineError, Graph
from callsheet.providers.media import Generation
from callsheet.providers.parameters import Parameter, Parameters, parameter_problems, with_defaults
from callsheet.wire.errors import FieldProblem
from callsheet.wire.reasons import REQUIRED

TXT2IMG: Final = "txt2img"
IMG2IMG: Final = "img2img"
GRAPH: Final = "graph"
GRAPH_PARAMS: Final = ("graph", "output_node")
SAVE: Final = "save"

_WORDS: Final[Parameters] = {
    "seed": Parameter(type="integer", default=0, minimum=0, maximum=2**53),
    "steps": Parameter(type="integer", default=8, minimum=1, maximum=100),
}
PARAMETERS: Final[Mapping[str, Parameters]] = {
    TXT2IMG: {
        "width": Parameter(type="integer", default=768, minimum=16, maximum=4096),
        "height": Parameter(type="integer", default=512, minimum=16, maximum=4096),
        "batch_size": Parameter(type="integer", default=1, minimum=1, maximum=16),
        **_WORDS,
    },
    IMG2IMG: {
        "image_url": Parameter(required=True, minimum=8, maximum=4000),
        "strength": Parameter(type="number", default=0.5, minimum=0, maximum=1),
        **_WORDS,
    },
}


def problems_of(generation: Generation) -> Iterator[FieldProblem]:
    if generation.action == GRAPH:
        yield from _problems_of_graph(generation.params)
        return
    if not generation.prompt.strip():
        yield FieldProblem("prompt", REQUIRED)
    yield from parameter_problems(PARAMETERS[generation.action], generation.action, generation.params)


def params_of(generation: Generation) -> dict[str, Any]:
    """The parameters of a generation with the defaults. The graph is left out, because it is large and already in
    the task.
    """
    if generation.action == GRAPH:
        return {name: value for name, value in generation.params.items() if name != "graph"}
    return with_defaults(PARAMETERS[generation.action], generation.params)


def graph_of(generation: Generation, image: str | None) -> tuple[Graph, str | None]:
    """The graph, and the node whose files count. `image`: the engine's name of the given image."""
    if generation.action == GRAPH:
        return checked_graph(generation.params["graph"]), generation.params.get("output_node")
    params = params_of(generation)
    words = {"text": generation.prompt, "seed": params["seed"], "steps": params["steps"]}
    if generation.action == TXT2IMG:
        size = {name: params[name] for name in ("width", "height", "batch_size")}
        graph = {"draw": _node("LightboxTextToImage", **words, **size), SAVE: _saved("draw")}
        return graph, SAVE
    graph = {
        "load": _node("LoadImage", image=image),
        "draw": _node("LightboxTextToImage", **words, width=768, height=512),
        "blend": _node(
            "ImageBlend",
            image1=["load", 0],
            image2=["draw", 0],
            blend_factor=params["strength"],
            blend_mode="normal",
        ),
        SAVE: _saved("blend"),
    }
    return graph, SAVE


def _problems_of_graph(params: Mapping[str, Any]) -> Iterator[FieldProblem]:
    for name in params.keys() - set(GRAPH_PARAMS):
        yield FieldProblem(
            f"params.{name[:100]}", f"The action graph has no such parameter. Available: {', '.join(GRAPH_PARAMS)}."
        )
    node = params.get("output_node")
    if node is not None and not isinstance(node, str):
        yield FieldProblem("params.output_node", "The value must be a text.")
    if params.get("graph") is None:
        yield FieldProblem("params.graph", REQUIRED)
        return
    try:
        graph = checked_graph(params["graph"])
        refuse_foreign_files(graph)
    except EngineError as wrong:
        yield FieldProblem("params.graph", wrong.message)
        return
    if isinstance(node, str) and node not in graph:
        yield FieldProblem("params.output_node", "The graph has no such node.")


def _node(class_type: str, **inputs: Any) -> dict[str, Any]:
    return {"class_type": class_type, "inputs": inputs}


def _saved(node_id: str) -> dict[str, Any]:
    return _node("SaveImage", images=[node_id, 0], filename_prefix="picture")
