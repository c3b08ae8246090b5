import { useNavigate } from "@tanstack/react-router";
import { TriangleAlert } from "lucide-react";
import { useState } from "react";
import { hasStatus } from "@/api/problems";
import { Badge, Button } from "@/design";
import { FormDialog } from "@/parts/form/FormDialog";
import { FormField } from "@/parts/form/FormField";
import { useForm } from "@/parts/form/useForm";
import { Graph } from "@/parts/graph/Graph";
import { readGraph } from "@/parts/graph/graph";
import { nameOfFile, slugOf } from "@/parts/slugs";
import type { ReadExport } from "@/parts/workflow/useExport";
import { workflowsTexts } from "@/texts/workflows";
import { useCreateWorkflow, useOpenTaken } from "./useCreateWorkflow";

/** Summary of an export, and the name of the new workflow. */
export function ImportDialog({ read: { file, proposal }, onClose }: { read: ReadExport; onClose: () => void }) {
  const navigate = useNavigate();
  const open = (made: string) => void navigate({ to: "/operate/workflows/$slug", params: { slug: made } });
  const create = useCreateWorkflow(open);
  const openTaken = useOpenTaken(open);
  const [graph] = useState(() => readGraph(proposal.graph));
  const output = proposal.outputs[0];
  const fileName = nameOfFile(file.name);
  const form = useForm({
    saved: { name: fileName, slug: slugOf(fileName) },
    save: create,
    body: (values) => ({ ...values, proposal }),
  });
  const { name, slug } = form.values;
  const text = { form, required: true, autoComplete: "off" };
  return (
    <FormDialog
      wide
      form={form}
      title={workflowsTexts.importTitle(file.name)}
      text={workflowsTexts.importText}
      action={workflowsTexts.create}
      cancel={workflowsTexts.cancel}
      disabled={!name.trim() || !slug}
      other={
        hasStatus(create.error, 409) && (
          <Button
            busy={openTaken.isPending}
            onClick={() => openTaken.mutate({ slug, proposal })}
            title={workflowsTexts.openTakenText}
          >
            {workflowsTexts.openTaken}
          </Button>
        )
      }
      onClose={onClose}
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
      <div className="grid items-start gap-4 sm:grid-cols-2">
        <FormField {...text} name="name" label={workflowsTexts.name} maxLength={200} />
        <FormField
          {...text}
          name="slug"
          label={workflowsTexts.slug}
          hint={workflowsTexts.slugHint}
          spellCheck={false}
        />
      </div>
    </FormDialog>
  );
}
