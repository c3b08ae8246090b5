import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { explain, fieldReason } from "@/api/problems";
import type { Schemas } from "@/api/types";
import { Button, Dialog } from "@/design";
import { workflowChange, workflowPlan } from "@/parts/fleet/fleet-changes";
import { WorkflowPicker } from "@/parts/fleet/WorkflowPicker";
import { PlanText } from "@/parts/PlanText";
import { fleetsTexts, fleetTexts as texts } from "@/texts/fleets";
import { fleetWorkflowsQuery } from "./queries";
import { useChangeWorkflows } from "./useFleetActions";

export function WorkflowsDialog({ fleet, onClose }: { fleet: Schemas["Fleet"]; onClose: () => void }) {
  const [before] = useState(fleet.workflows);
  const [chosen, setChosen] = useState<string[]>(fleet.workflows);
  const { data: queues = [] } = useQuery(fleetWorkflowsQuery(fleet.id));
  const save = useChangeWorkflows(fleet.id, onClose);
  const change = workflowChange(before, chosen);
  const isChanged = change.add.length + change.remove.length > 0;
  const reason = fieldReason(save.error, "add") ?? fieldReason(save.error, "remove");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (isChanged) save.mutate(change);
  };
  return (
    <Dialog open onOpenChange={(open) => !open && onClose()} title={texts.workflowsTitle(fleet.name)}>
      <form onSubmit={submit} onChange={() => save.error && save.reset()} className="grid gap-4" noValidate>
        <WorkflowPicker value={chosen} onChange={setChosen} error={reason} />
        <PlanText label={fleetsTexts.plan.label} sentences={workflowPlan(change, queues)} />
        {save.error && !reason && (
          <p role="alert" className="text-s text-bad">
            {explain(save.error)}
          </p>
        )}
        <Button type="submit" look="go" busy={save.isPending} disabled={!isChanged}>
          {texts.save}
        </Button>
      </form>
    </Dialog>
  );
}
