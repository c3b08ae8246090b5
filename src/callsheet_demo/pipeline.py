"""The demo's pipeline: landscapes, each in several lights. A run of it makes a tree of three levels."""

from __future__ import annotations

from callsheet.cli.shared.pipeline_client import PipelineClient
from callsheet.wire.pipelines.pipelines import CreatePipeline, NewStep

PIPELINE = CreatePipeline(
    slug="demo-landscapes",
    name="Landscapes in many lights",
    description="Landscapes from your words, each in three lights, and two refinements of every light.",
    steps=[
        NewStep(name="Landscapes", workflow="demo-imagine", needs_run_prompt=True, max_children=3),
        NewStep(name="Lights", workflow="demo-relight", needs_parent_image_path=True, max_children=2),
        NewStep(name="Refined", workflow="demo-relight", needs_parent_image_path=True, values={"strength": 0.6}),
    ],
)


async def seed_pipeline(client: PipelineClient) -> None:
    """Creates the pipeline if it is missing. Changes of users stay."""
    if await client.pipeline(PIPELINE.slug) is None:
        await client.create_pipeline(PIPELINE)
