import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Schemas } from "@/api/types";
import { workflowChange, workflowPlan } from "@/parts/fleet/fleet-changes";
import { WorkflowPicker } from "@/parts/fleet/WorkflowPicker";
import { FormDialog } from "@/parts/form/FormDialog";
import { useForm } from "@/parts/form/useForm";
import { PlanText } from "@/parts/PlanText";
import { fleetsTexts, fleetTexts as texts } from "@/texts/fleets";
import { fleetWorkflowsQuery } from "./queries";
import { useChangeWorkflows } from "./useFleetActions";

export function WorkflowsDialog({ fleet, onClose }: { fleet: Schemas["Fleet"]; onClose: () => void }) {
  const [before] = useState(fleet.workflows);
  const { data: queues = [] } = useQuery(fleetWorkflowsQuery(fleet.id));
  const form = useForm({
    saved: { workflow_slugs: before },
    save: useChangeWorkflows(fleet.id, onClose),
    body: ({ workflow_slugs }) => workflowChange(before, workflow_slugs),
    fields: ["add", "remove"],
  });
  const chosen = form.values.workflow_slugs;
  const change = workflowChange(before, chosen);
  return (
    <FormDialog
      form={form}
      title={texts.workflowsTitle(fleet.name)}
      action={texts.save}
      disabled={change.add.length + change.remove.length === 0}
      onClose={onClose}
    >
      <WorkflowPicker
        value={chosen}
        onChange={(workflow_slugs) => form.set({ workflow_slugs })}
        error={form.reasonOf("add") ?? form.reasonOf("remove")}
      />
      <PlanText label={fleetsTexts.plan.label} sentences={workflowPlan(change, queues)} />
    </FormDialog>
  );
}
