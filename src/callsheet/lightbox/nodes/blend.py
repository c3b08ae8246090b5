"""."""

from callsheet.lightbox.node import Node

NODES: tuple[type[Node], ...] = ()
