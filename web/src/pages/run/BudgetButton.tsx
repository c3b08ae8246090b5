import { useState } from "react";
import { Button, formatTokens } from "@/design";
import { FormDialog } from "@/parts/form/FormDialog";
import { FormField } from "@/parts/form/FormField";
import { useForm } from "@/parts/form/useForm";
import { budgetTexts as texts } from "@/texts/runs";
import type { Run } from "./queries";
import { useChangeRun } from "./useRunActions";

export function BudgetButton({ run }: { run: Run }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Button size="s" onClick={() => setOpen(true)}>
        {texts.change}
      </Button>
      {isOpen && <BudgetDialog run={run} onClose={() => setOpen(false)} />}
    </>
  );
}

function BudgetDialog({ run, onClose }: { run: Run; onClose: () => void }) {
  const form = useForm({
    saved: { budget: String(run.budget) },
    save: useChangeRun(run.id, (changed) => texts.saved(formatTokens(changed.budget)), onClose),
    body: ({ budget }) => ({ budget: Number(budget) }),
  });
  return (
    <FormDialog
      form={form}
      isChecked
      title={texts.change}
      text={texts.changeText(formatTokens(run.spent))}
      action={texts.save}
      cancel={texts.stop}
      onClose={onClose}
    >
      <FormField
        form={form}
        name="budget"
        label={texts.newBudget}
        type="number"
        inputMode="numeric"
        min={Math.max(1, run.spent)}
        step={1}
        required
      />
    </FormDialog>
  );
}
