"""The nodes, by kind, and the one list of them."""

from __future__ import annotations

from callsheet_lightbox.node import Node, NodeRegistry
from callsheet_lightbox.nodes import (
    adjust,
    audio,
    blend,
    generate,
    images,
    masks,
    motion,
    overlays,
    probes,
    saving,
    texts,
    video,
)

_NODES: tuple[type[Node], ...] = (
    *images.NODES,
    *saving.NODES,
    *masks.NODES,
    *adjust.NODES,
    *blend.NODES,
    *overlays.NODES,
    *texts.NODES,
    *generate.NODES,
    *video.NODES,
    *motion.NODES,
    *audio.NODES,
)


def build_registry(with_probes: bool = False) -> NodeRegistry:
    """Every node. Nodes that misbehave on purpose are included only for tests."""
    nodes = (*_NODES, *probes.NODES) if with_probes else _NODES
    return NodeRegistry({node.name: node for node in nodes})
