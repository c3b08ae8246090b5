"""A proposal for a graph, as the API returns it. Pure."""

from __future__ import annotations

from dataclasses import asdict

from callsheet.catalog.graphs import bare_graph, check_graph, normalized
from callsheet.catalog.proposals import inputs_of, propose
from callsheet.catalog.workflows import refuse
from callsheet.wire.workflow_editing import GraphInput, GraphOutput, ProposeWorkflow, WorkflowProposal


def proposal_of(request: ProposeWorkflow) -> WorkflowProposal:
    """The proposal for a graph. Raises a refusal that names every problem of the graph."""
    graph = bare_graph(request.graph)
    refuse(check_graph(graph))
    graph = normalized(graph)
    proposal = propose(graph, everything=request.everything)
    return WorkflowProposal(
        graph=proposal.graph,
        properties=proposal.properties,
        inputs=[GraphInput(**{**each._asdict(), "types": [*each.types]}) for each in inputs_of(graph)],
        outputs=[GraphOutput(**asdict(each)) for each in proposal.outputs],
    )
