import { useNavigate } from "@tanstack/react-router";
import { Ellipsis, Power, PowerOff, Trash2 } from "lucide-react";
import { useState } from "react";
import { Button, Menu, MenuItem, MenuLine } from "@/design";
import { ConfirmDialog } from "@/parts/ConfirmDialog";
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
      {dialog === "delete" && (
        <ConfirmDialog
          danger
          title={workflowsTexts.deleteTitle(workflow.name)}
          text={workflowsTexts.deleteText}
          action={workflowsTexts.deleteIt}
          busy={remove.isPending}
          error={remove.error}
          onConfirm={remove.mutate}
          onClose={() => {
            remove.reset();
            close();
          }}
        />
      )}
    </>
  );
}
