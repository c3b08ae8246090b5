import { useNavigate } from "@tanstack/react-router";
import { Ellipsis, Power, PowerOff, Trash2 } from "lucide-react";
import { useState } from "react";
import { explain } from "@/api/problems";
import { Button, Dialog, Menu, MenuItem, MenuLine } from "@/design";
import type { WorkflowDetail } from "@/parts/workflow/queries";
import { workflowsTexts } from "@/texts/workflows";
import { RetireDialog } from "./RetireDialog";
import { useDeleteWorkflow, useSwitchWorkflow } from "./useWorkflowActions";

export function WorkflowActions({ workflow }: { workflow: WorkflowDetail }) {
  const [dialog, setDialog] = useState<"retire" | "delete" | null>(null);
  const navigate = useNavigate();
  const close = () => setDialog(null);
  const activate = useSwitchWorkflow(workflow.slug);
  const remove = useDeleteWorkflow(workflow.name, workflow.slug, () => void navigate({ to: "/operate/workflows" }));
  return (
    <>
      {!workflow.is_active && (
        <Button busy={activate.isPending} icon={<Power size={16} />} onClick={() => activate.mutate(true)}>
          {workflowsTexts.activate}
        </Button>
      )}
      <Menu trigger={<Button size="icon" aria-label={workflowsTexts.actions} icon={<Ellipsis size={18} />} />}>
        {workflow.is_active && (
          <MenuItem icon={<PowerOff size={16} />} onSelect={() => setDialog("retire")}>
            {workflowsTexts.retire}
          </MenuItem>
        )}
        {workflow.is_active && <MenuLine />}
        <MenuItem danger icon={<Trash2 size={16} />} onSelect={() => setDialog("delete")}>
          {workflowsTexts.delete}
        </MenuItem>
      </Menu>
      {dialog === "retire" && <RetireDialog workflow={workflow} onClose={close} />}
      <Dialog
        open={dialog === "delete"}
        onOpenChange={(open) => {
          if (open) return;
          remove.reset();
          close();
        }}
        title={workflowsTexts.deleteTitle(workflow.name)}
        text={workflowsTexts.deleteText}
        actions={
          <>
            <Button onClick={close}>{workflowsTexts.cancel}</Button>
            <Button look="danger" busy={remove.isPending} onClick={() => remove.mutate()}>
              {workflowsTexts.deleteIt}
            </Button>
          </>
        }
      >
        {remove.error !== null && (
          <p role="alert" className="text-s text-bad">
            {explain(remove.error)}
          </p>
        )}
      </Dialog>
    </>
  );
}
