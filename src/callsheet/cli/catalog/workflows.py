"""`callsheet workflows`: the workflows that engines can run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from callsheet.cli.catalog.catalog import AS_JSON, LISTED, with_catalog
from callsheet.cli.catalog.workflow_properties import PROPERTY, chosen_properties, limits_text
from callsheet.cli.shared.console import agrees, checked, err, out, print_json, print_table, require_consent
from callsheet.toolbox.errors import OperatorError
from callsheet.wire.catalog import MAX_PROPERTIES, CreateWorkflow, UpdateWorkflow, WorkflowDetail
from callsheet.wire.plurals import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from callsheet.catalog.proposing.chosen import ChosenProperty
    from callsheet.catalog.proposing.draft import Proposal
    from callsheet.catalog.proposing.outputs import ProposedOutput
    from callsheet.catalog.room import CatalogRoom
    from callsheet.providers.comfy.node_forms import NodeForms

workflows = typer.Typer(help="Workflows: graphs that engines run.", no_args_is_help=True)

WORKFLOW = typer.Argument(help="Short name of the workflow.")
OUTPUT_NODE = typer.Option(None, help="Id of the node that makes the result. Default for an import: the proposed node.")
ALL_OUTPUTS = typer.Option(False, "--all-outputs", help="Deliver all files that the graph saves.")
RUN_LIMIT = typer.Option(None, min=1, max=604_800, help="Longest run, in seconds. Default: 3600.")
REFUND_ON_CANCEL = typer.Option(
    None,
    help="Refund when a running job is canceled. all: all tokens. unspent: the tokens for the rest of the run.",
)
KEEP_METADATA = typer.Option(
    None,
    "--keep-metadata/--remove-metadata",
    help="Keep the metadata that the engine writes into results, which contains the graph. Default: the metadata is "
    "removed.",
)
REQUIREMENTS = typer.Option(
    None,
    help='What an engine must have, as JSON, for example {"ignore": ["a.safetensors"]}. Default {}: what the graph '
    "names.",
)
MAX_FILE_BYTES = 64 * 1024 * 1024


@workflows.command("import")
def import_workflow(
    file: Path = typer.Argument(help="A ComfyUI export in API format."),
    slug: str | None = typer.Option(
        None, help="Short name of the workflow. Default: derived from the name of the file."
    ),
    name: str | None = typer.Option(None, help="Display name. Default: the short name."),
    output_node: str | None = OUTPUT_NODE,
    all_outputs: bool = ALL_OUTPUTS,
    extension: str | None = typer.Option(
        None, help="File extension of the result, for example mp4. Default: that of the output node."
    ),
    mime_type: str | None = typer.Option(
        None, help="Media type of the result, for example video/mp4. Default: that of the extension."
    ),
    everything: bool = typer.Option(False, "--all", help="Also make numbers, choices and booleans properties."),
    properties: list[str] = PROPERTY,
    run_limit: int | None = RUN_LIMIT,
    keep_metadata: bool | None = KEEP_METADATA,
    replace: bool = typer.Option(False, "--replace", help="Replace the workflow of this name if it exists."),
    yes: bool = typer.Option(False, "--yes", "-y", help="Write the workflow without confirmation."),
    as_json: bool = AS_JSON,
) -> None:
    """Create a workflow from a ComfyUI export. Texts, images, videos and sounds become properties."""
    _refuse_both(output_node, all_outputs)
    graph = _read_graph(file)
    chosen = chosen_properties(properties, graph)
    slug = slug or _slug_of(file)
    optional = {"keep_metadata": keep_metadata, "run_limit_seconds": run_limit}

    async def work(catalog: CatalogRoom) -> None:
        from callsheet.catalog.engines.requirements import required_of
        from callsheet.catalog.workflows import checked as checked_graph
        from callsheet.providers.comfy.models import classes_of_graph

        engines = await catalog.engines.read(classes_of_graph(graph))
        proposal = _proposed(graph, engines.forms, everything, chosen)
        output = _chosen_output(proposal, output_node, extension, mime_type, is_one_of_all=all_outputs)
        request = checked(
            CreateWorkflow,
            slug=slug,
            name=name or slug,
            graph=proposal.graph,
            properties=[each.model_dump() for each in proposal.properties],
            output_node_id=None if all_outputs else output.node_id,
            output_extension=output.extension,
            output_mime_type=output.mime_type,
            **{field: value for field, value in optional.items() if value is not None},
        )
        checked_graph(request.graph, request.properties, request.model_dump())
        warnings = engines.warnings(required_of(request.graph, request.properties, request.requirements))
        if not as_json:
            _show_proposal(proposal, output, all_outputs=all_outputs)
        for warning in warnings:
            err.print(f"callsheet: warning: {warning}")
        if not agrees("Write it?", yes, default=True):
            if as_json:
                print_json(request)
            raise OperatorError("Nothing was written. Add --yes to write it.")
        written = await _write(catalog, request, name is not None, replace)
        if as_json:
            print_json(written.model_copy(update={"warnings": warnings}))
        else:
            out.print(f"Workflow {written.slug} was written, with its graph at {written.comfyui_workflow_path}.")
            out.print(
                f"Create an effect: callsheet effects create NAME --workflow {written.slug} --cost TOKENS --publish"
            )

    with_catalog(work)


def _proposed(
    graph: dict[str, Any],
    forms: NodeForms,
    everything: bool,
    chosen: Mapping[tuple[str, str], ChosenProperty],
) -> Proposal:
    from callsheet.catalog.proposing.chosen import Unusable
    from callsheet.catalog.proposing.proposals import propose

    try:
        return propose(graph, forms, everything=everything, chosen=chosen)
    except Unusable as unusable:
        raise OperatorError(f"--property {unusable}") from None


async def _write(catalog: CatalogRoom, request: CreateWorkflow, rename: bool, replace: bool) -> WorkflowDetail:
    from callsheet.identity.audit_log import OPERATOR
    from callsheet.wire.errors import Conflict, NotFound

    if replace:
        # Fields that were not named on the command line do not change.
        excluded = {"slug"} if rename else {"slug", "name"}
        try:
            update = UpdateWorkflow(**request.model_dump(exclude=excluded, exclude_unset=True))
            return await catalog.workflows.update(request.slug, update, OPERATOR)
        except NotFound:
            pass
    try:
        return await catalog.workflows.create(request, OPERATOR)
    except Conflict as taken:
        raise OperatorError(f"{taken.detail} Change it with --replace, or choose another name with --slug.") from None


def _read_graph(file: Path) -> dict[str, Any]:
    from callsheet.catalog.graphs import bare_graph, check_graph

    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise OperatorError(f"{file} is too large to be a workflow.")
        # Given bytes, `loads` finds the encoding: editors on Windows start a file with a byte order mark.
        graph = json.loads(file.read_bytes())
    except OSError as error:
        raise OperatorError(f"{file} cannot be read: {error.strerror}.") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}" if error.doc.strip() else "it is empty"
        raise OperatorError(f"{file} is not JSON ({where}). Export it again: Workflow → Export (API).") from None
    except (ValueError, RecursionError):
        raise OperatorError(f"{file} is not JSON. Export it again: Workflow → Export (API).") from None
    if not isinstance(graph, dict):
        raise OperatorError(f"{file} is not a workflow. A workflow is an object of nodes.")
    bare = dict(bare_graph(graph))
    problems = check_graph(bare)
    if problems:
        raise OperatorError(f"{file}: {problems[0]}")
    return bare


def _slug_of(file: Path) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", file.stem.lower()).strip("-")[:60]
    if not slug:
        raise OperatorError("No short name can be derived from the name of the file. Set one: --slug NAME")
    return slug


def _refuse_both(output_node: str | None, all_outputs: bool) -> None:
    if all_outputs and output_node is not None:
        raise OperatorError("--all-outputs cannot be combined with --output-node.")


def _chosen_output(
    proposal: Proposal, node_id: str | None, extension: str | None, mime_type: str | None, *, is_one_of_all: bool
) -> ProposedOutput:
    from callsheet.catalog.properties import MIME_TYPES
    from callsheet.catalog.proposing.outputs import ProposedOutput, named_output

    if node_id is not None and node_id not in proposal.graph:
        raise OperatorError(f"There is no node {node_id!r} in this graph.")
    if node_id is None and not proposal.outputs and not is_one_of_all:
        raise OperatorError(
            "No node of this graph is known to save a file or show a text. Choose the node: --output-node ID"
        )
    # The most likely of several outputs decides the expected kind of file.
    likeliest = proposal.outputs[0] if proposal.outputs else named_output(proposal.graph, next(iter(proposal.graph)))
    # In the proposed graph, the format of a node may be a placeholder.
    known = {each.node_id: each for each in proposal.outputs}
    found = likeliest if node_id is None else known.get(node_id) or named_output(proposal.graph, node_id)
    ending = extension or found.extension
    default_type = MIME_TYPES.get(ending, found.mime_type)
    return ProposedOutput(found.node_id, found.class_type, ending, mime_type or default_type)


def _show_proposal(proposal: Proposal, output: ProposedOutput, *, all_outputs: bool) -> None:
    nodes = sorted(proposal.graph.items(), key=lambda item: (len(item[0]), item[0]))
    print_table(
        ("node", "class", "title"),
        [(node_id, node["class_type"], (node.get("_meta") or {}).get("title")) for node_id, node in nodes],
    )
    out.print("")
    if proposal.properties:
        print_table(
            ("property", "type", "label", "limits", "placeholder", "in node", "set by"),
            [
                (
                    each.key,
                    each.type.value,
                    each.label,
                    limits_text(each.limits),
                    each.placeholder,
                    proposal.places[each.key],
                    "the user's upload" if each.is_primary_input else "users" if each.user_configurable else "effects",
                )
                for each in proposal.properties
            ],
        )
    else:
        out.print("No properties: nothing in this graph looks like a prompt or a file.")
    if not any(each.type.value == "text" for each in proposal.properties):
        out.print("No text can be set by users. To add one, write {{name}} into the graph and import it again.")
    if proposal.left_out:
        out.print(
            f"{counted(proposal.left_out, 'more input')} could be properties, but a workflow has at most "
            f"{counted(MAX_PROPERTIES, 'property', 'properties')}. "
            "Choose some with --property."
        )
    if not proposal.forms:
        out.print("No online worker reports what its nodes accept, so types and limits follow from the graph alone.")
    out.print("")
    if all_outputs:
        out.print("The result is everything that the graph saves.")
        return
    out.print(
        f"The result is what node {output.node_id} ({output.class_type}) {_does(output)}, as .{output.extension}."
    )
    others = [each for each in proposal.outputs if each.node_id != output.node_id]
    if others:
        listed = ", ".join(f"{each.node_id} ({each.class_type})" for each in others)
        out.print(f"Other nodes have results too. Choose one with --output-node, or all with --all-outputs: {listed}.")


def _does(output: ProposedOutput) -> str:
    return "shows" if output.extension == "txt" else "saves"


@workflows.command("list")
def list_workflows(as_json: bool = AS_JSON) -> None:
    """List the workflows."""
    page = with_catalog(lambda catalog: catalog.workflows.list(None, None, LISTED))
    if as_json:
        print_json(page.items)
    else:
        rows = [
            (row.slug, row.name, "yes" if row.is_active else "no", ", ".join(each.key for each in row.properties))
            for row in page.items
        ]
        print_table(("slug", "name", "active", "properties"), rows)


@workflows.command("show")
def show_workflow(slug: str, as_json: bool = AS_JSON) -> None:
    """Show a workflow; with --json also its graph."""
    found = with_catalog(lambda catalog: catalog.workflows.get(slug))
    if as_json:
        print_json(found)
        return
    out.print(f"{found.slug}: {found.name}{'' if found.is_active else ' (switched off)'}")
    out.print(f"Graph: {found.comfyui_workflow_path or 'none'}")
    of_node = "everything that the graph saves" if found.output_node_id is None else f"node {found.output_node_id}"
    out.print(f"Result: {of_node}, .{found.output_extension}, {found.output_mime_type}")
    out.print(f"Longest run: {counted(found.run_limit_seconds, 'second')}")
    out.print(f"Refund when a running job is canceled: {found.refund_on_cancel}")
    out.print(f"Metadata of results: {'kept (it contains the graph)' if found.keep_metadata else 'removed'}")
    if found.required is not None:
        models = [each.name + (f" ({each.sha256[:12]}…)" if each.sha256 else "") for each in found.required.models]
        versions = [f"engine {found.required.engine_version}"] if found.required.engine_version else []
        out.print(f"Requires: {', '.join([*found.required.node_classes, *models, *versions]) or 'nothing'}")
    rows = [
        (each.key, each.type.value, each.placeholder, each.default, "yes" if each.user_configurable else "no")
        for each in found.properties
    ]
    print_table(("property", "type", "placeholder", "default", "users may set it"), rows)


@workflows.command("update")
def update_workflow(
    slug: str = WORKFLOW,
    name: str | None = typer.Option(None, help="Display name."),
    description: str | None = typer.Option(None, help="Description of the workflow."),
    output_node: str | None = OUTPUT_NODE,
    all_outputs: bool = ALL_OUTPUTS,
    extension: str | None = typer.Option(None, help="File extension of the result. Default: that of the output node."),
    mime_type: str | None = typer.Option(None, help="Media type of the result. Default: that of the extension."),
    run_limit: int | None = RUN_LIMIT,
    keep_metadata: bool | None = KEEP_METADATA,
    refund_on_cancel: str | None = REFUND_ON_CANCEL,
    requirements: str | None = REQUIREMENTS,
    as_json: bool = AS_JSON,
) -> None:
    """Change a workflow. Jobs that were already submitted do not change."""
    from callsheet.catalog.properties import MIME_TYPES
    from callsheet.identity.audit_log import OPERATOR

    _refuse_both(output_node, all_outputs)
    if output_node is not None and extension is None:
        extension = _extension_of(slug, output_node)
    given = {
        "name": name,
        "description": description,
        "output_node_id": output_node,
        "output_extension": extension,
        "output_mime_type": mime_type or MIME_TYPES.get(extension or ""),
        "run_limit_seconds": run_limit,
        "keep_metadata": keep_metadata,
        "refund_on_cancel": refund_on_cancel,
        "requirements": _json_of(requirements),
    }
    changes: dict[str, object] = {field: value for field, value in given.items() if value is not None}
    if all_outputs:
        changes["output_node_id"] = None
    if not changes:
        raise OperatorError("Nothing to change. Name at least one field, for example --run-limit 600.")
    update = checked(UpdateWorkflow, **changes)
    changed = with_catalog(lambda catalog: catalog.workflows.update(slug, update, OPERATOR))
    if as_json:
        print_json(changed)
    else:
        out.print(f"Workflow {changed.slug} is changed: {', '.join(sorted(changes))}.")


def _json_of(text: str | None) -> object:
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        raise OperatorError("--requirements is not JSON.") from None


def _extension_of(slug: str, output_node: str) -> str | None:
    """The extension of a node's output; None if there is no such node, which is refused later."""
    from callsheet.catalog.proposing.outputs import named_output

    graph = with_catalog(lambda catalog: catalog.workflows.get(slug)).graph or {}
    return named_output(graph, output_node).extension if output_node in graph else None


@workflows.command("activate")
def activate_workflow(slug: str = WORKFLOW) -> None:
    """Switch a workflow on: its effects accept jobs, and workers get them."""
    _switch(slug, is_active=True)


@workflows.command("deactivate")
def deactivate_workflow(slug: str = WORKFLOW) -> None:
    """Switch a workflow off: its effects accept no jobs, and queued jobs wait until their deadline."""
    _switch(slug, is_active=False)


def _switch(slug: str, *, is_active: bool) -> None:
    from callsheet.identity.audit_log import OPERATOR

    update = UpdateWorkflow(is_active=is_active)
    changed = with_catalog(lambda catalog: catalog.workflows.update(slug, update, OPERATOR))
    out.print(f"Workflow {changed.slug} is {'active' if changed.is_active else 'not active'}.")


@workflows.command("delete")
def delete_workflow(
    slug: str = WORKFLOW,
    yes: bool = typer.Option(False, "--yes", "-y", help="Delete the workflow without confirmation."),
) -> None:
    """Delete a workflow that is switched off, has no effects and was never used by a job."""
    from callsheet.identity.audit_log import OPERATOR

    require_consent(f"Delete workflow {slug}?", "deleted", yes, f"delete workflow {slug}")
    with_catalog(lambda catalog: catalog.workflows.delete(slug, OPERATOR))
    out.print(f"Workflow {slug} is deleted.")
