import { useNavigate } from "@tanstack/react-router";
import { TriangleAlert } from "lucide-react";
import { type FormEvent, useState } from "react";
import { fieldReason, hasStatus } from "@/api/problems";
import { Badge, Button, Dialog, Field, Input } from "@/design";
import { Graph } from "@/parts/graph/Graph";
import { readGraph } from "@/parts/graph/graph";
import { ProblemPanel } from "@/parts/ProblemPanel";
import { slugOf } from "@/parts/workflow/draft";
import type { ReadExport } from "@/parts/workflow/useExport";
import { workflowsTexts } from "@/texts/workflows";
import { useCreateWorkflow, useOpenTaken } from "./useCreateWorkflow";

/** Summary of an export, and the name of the new workflow. */
export function ImportDialog({ read: { file, proposal }, onClose }: { read: ReadExport; onClose: () => void }) {
  const [name, setName] = useState(file.name.replace(/\.json$/i, "").slice(0, 200));
  const [slug, setSlug] = useState(slugOf(file.name));
  const navigate = useNavigate();
  const open = (made: string) => void navigate({ to: "/operate/workflows/$slug", params: { slug: made } });
  const create = useCreateWorkflow(open);
  const openTaken = useOpenTaken(open);
  const [graph] = useState(() => readGraph(proposal.graph));
  const output = proposal.outputs[0];
  const isTaken = hasStatus(create.error, 409);
  const isNamed = ["name", "slug"].some((field) => fieldReason(create.error, field) !== null);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    create.mutate({ name, slug, proposal });
  };
  return (
    <Dialog
      wide
      open
      onOpenChange={(isOpen) => !isOpen && onClose()}
      title={workflowsTexts.importTitle(file.name)}
      text={workflowsTexts.importText}
      actions={
        <>
          <Button onClick={onClose}>{workflowsTexts.cancel}</Button>
          {isTaken && (
            <Button
              busy={openTaken.isPending}
              onClick={() => openTaken.mutate({ slug, proposal })}
              title={workflowsTexts.openTakenText}
            >
              {workflowsTexts.openTaken}
            </Button>
          )}
          <Button look="go" type="submit" form="import" busy={create.isPending} disabled={!name.trim() || !slug}>
            {workflowsTexts.create}
          </Button>
        </>
      }
    >
      {proposal.warnings.map((warning) => (
        <p
          key={warning}
          role="status"
          className="flex gap-2.5 rounded-s bg-warn-soft px-3 py-2 text-s text-warn [overflow-wrap:anywhere]"
        >
          <TriangleAlert size={16} aria-hidden className="mt-0.5 shrink-0" />
          {warning}
        </p>
      ))}
      {graph && <Graph label={workflowsTexts.graph} graph={graph} height={220} />}
      <dl className="grid gap-2 text-s sm:grid-cols-[9rem_1fr]">
        <dt className="text-muted">{workflowsTexts.proposed}</dt>
        <dd className="flex flex-wrap gap-1.5">
          {proposal.properties.length === 0 && workflowsTexts.noProperties}
          {proposal.properties.map((each) => (
            <Badge key={each.key} shape={false}>
              {each.label || each.key}: {workflowsTexts.types[each.type]}
            </Badge>
          ))}
        </dd>
        {!proposal.is_declared && (
          <>
            <dt className="text-muted">{workflowsTexts.typesAndLimits}</dt>
            <dd>{workflowsTexts.notDeclared}</dd>
          </>
        )}
        <dt className="text-muted">{workflowsTexts.proposedResult}</dt>
        <dd className="[overflow-wrap:anywhere]">
          {output
            ? workflowsTexts.resultOf(output.class_type, output.node_id, output.extension)
            : workflowsTexts.allFiles}
        </dd>
      </dl>
      <form id="import" onSubmit={submit} noValidate className="grid items-start gap-4 sm:grid-cols-2">
        <Field label={workflowsTexts.name} required error={fieldReason(create.error, "name")}>
          <Input value={name} maxLength={200} autoComplete="off" onChange={(event) => setName(event.target.value)} />
        </Field>
        <Field
          label={workflowsTexts.slug}
          required
          hint={workflowsTexts.slugHint}
          error={fieldReason(create.error, "slug")}
        >
          <Input
            value={slug}
            autoComplete="off"
            spellCheck={false}
            onChange={(event) => {
              create.reset();
              setSlug(event.target.value);
            }}
          />
        </Field>
      </form>
      {create.error !== null && !isNamed && <ProblemPanel error={create.error} />}
    </Dialog>
  );
}
