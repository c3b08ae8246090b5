"""Models for the editor of workflows: proposals for a graph, versions and test runs."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import Field

from callsheet.wire.base import KeyedRequest, ResponseModel, Switch, UserRequest
from callsheet.wire.catalog import (
    Graph,
    Limits,
    MimeType,
    NodeId,
    Properties,
    Property,
    PropertyType,
    RefundOnCancel,
    Values,
)
from callsheet.wire.forms import Extension, Provider, Slug
from callsheet.wire.worker.environment import Requirements


class ProposeWorkflow(UserRequest):
    graph: Graph = Field(
        description="ComfyUI's API format, or a whole request to ComfyUI that has the graph in `prompt`."
    )
    everything: Switch = Field(False, description="Whether numbers, choices and booleans become properties too.")


class GraphInput(ResponseModel):
    """An input of a node that has a value of its own, so that it can become a property."""

    node_id: str
    name: str
    value: bool | int | float | str = Field(description="The value in the graph that you sent.")
    types: list[PropertyType] = Field(description="Types that the property can have, the likeliest first.")
    label: str = Field(description="A label for the property: the title of the node and the name of the input.")
    limits: Limits = Field(
        description="Limits for a property of the first type, as the engines of online workers declare them."
    )


class GraphOutput(ResponseModel):
    """A node that makes a file or shows a text, and the kind of its result."""

    node_id: str
    class_type: str
    extension: str
    mime_type: str


class WorkflowProposal(ResponseModel):
    """A proposal for a workflow. Nothing is stored."""

    graph: dict[str, Any] = Field(description="The graph, with the placeholders of the proposed properties.")
    properties: list[Property]
    inputs: list[GraphInput]
    outputs: list[GraphOutput] = Field(description="Nodes that can make the result, the likeliest first.")
    left_out: int = Field(
        0, description="Number of inputs that got no property, because a workflow has at most 100 properties."
    )
    is_declared: bool = Field(
        description="Whether types and limits are those that engines of workers declare. False: no worker that reports "
        "them is online, so they follow from the graph alone."
    )
    warnings: list[str] = Field(description="Node classes and models that the graph needs and no online worker has.")


class WorkflowVersion(ResponseModel):
    """A workflow as it was after a change."""

    version: int = Field(description="1 for the first version. The largest number is the current version.")
    actor: str | None = Field(None, description="The user or command that made the change. Null: not known.")
    actor_email: str | None = Field(
        None,
        description="E-mail address of the user who made it. Null if the actor is not a user, or was deleted.",
    )
    created_at: datetime
    name: str
    comfyui_workflow_path: str | None = None


class WorkflowVersionDetail(WorkflowVersion):
    description: str
    properties: list[Property]
    output_node_id: str | None = None
    output_extension: str
    output_mime_type: str
    keep_metadata: bool
    run_limit_seconds: int
    lease_seconds: int | None = None
    max_attempts: int | None = None
    refund_on_cancel: RefundOnCancel
    requirements: Requirements
    graph: dict[str, Any] | None = None


class WorkflowDraft(UserRequest):
    """A change of a workflow that is tested before it is saved. Fields that you leave out are those of the workflow."""

    graph: Graph | None = None
    properties: Properties | None = None
    output_node_id: NodeId | None = None
    output_extension: Extension | None = None
    output_mime_type: MimeType | None = None
    keep_metadata: Switch | None = None


class WorkflowTest(KeyedRequest):
    """Values and files for a test run. All properties can be set, also those that users cannot set."""

    input_payload: Values = Field(default_factory=dict, description="Values of the properties, by key.")
    video_id: UUID | None = Field(None, description="A video of yours, as the primary input.")
    input_file_id: UUID | None = Field(None, description="A file of yours, as the primary input.")
    overrides: Values = Field(
        default_factory=dict, description="Values of an effect, by key. For a file: the id of an asset."
    )
    draft: WorkflowDraft | None = Field(None, description="A change that is not saved. Null: the workflow as it is.")
    provider: Provider = "self_hosted"
    stage: Slug = "production"
