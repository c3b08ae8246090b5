import { explain } from "@/api/problems";
import { Button, Dialog } from "@/design";
import { workflowsTexts } from "@/texts/workflows";

/** The reason why a file cannot be imported, and the next step. */
export function ExportProblem({ error, onClose }: { error: Error | null; onClose: () => void }) {
  return (
    <Dialog
      open={error !== null}
      onOpenChange={(open) => !open && onClose()}
      title={workflowsTexts.cannotImport}
      text={error === null ? "" : explain(error)}
      actions={<Button onClick={onClose}>{workflowsTexts.close}</Button>}
    />
  );
}
