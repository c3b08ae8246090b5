import { explain } from "@/api/problems";
import { Button, Dialog } from "@/design";
import { workflowsTexts } from "@/texts/workflows";

/** The reason why a file cannot be imported, and the next step. */
export function ExportProblem({ error, onClose }: { error: Error; onClose: () => void }) {
  return (
    <Dialog
      onClose={onClose}
      title={workflowsTexts.cannotImport}
      text={explain(error)}
      actions={<Button onClick={onClose}>{workflowsTexts.close}</Button>}
    />
  );
}
