"""A proposal for a graph, as the API returns it. Pure."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from callsheet.catalog.engines.live_engines import LiveEngines
from callsheet.catalog.engines.requirements import required_of
from callsheet.catalog.graphs import Graph, bare_graph, check_graph, normalized
from callsheet.catalog.proposing.proposals import inputs_of, propose
from callsheet.catalog.workflows import refuse
from callsheet.wire.worker.environment import Requirements
from callsheet.wire.workflow_editing import GraphInput, GraphOutput, WorkflowProposal


def readable_graph(document: Graph) -> dict[str, Any]:
    """The graph of an export. Raises a refusal that names every problem of the graph."""
    graph = bare_graph(document)
    refuse(check_graph(graph))
    return normalized(graph)


def proposal_of(graph: Graph, engines: LiveEngines, *, everything: bool) -> WorkflowProposal:
    proposal = propose(graph, engines.forms, everything=everything)
    return WorkflowProposal(
        graph=proposal.graph,
        properties=proposal.properties,
        inputs=[GraphInput(**{**each._asdict(), "types": [*each.types]}) for each in inputs_of(graph, engines.forms)],
        outputs=[GraphOutput(**asdict(each)) for each in proposal.outputs],
        left_out=proposal.left_out,
        is_declared=bool(engines.forms),
        warnings=engines.warnings(required_of(proposal.graph, proposal.properties, Requirements())),
    )
