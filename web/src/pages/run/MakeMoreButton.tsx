import { Plus } from "lucide-react";
import { useState } from "react";
import { UpdateRun } from "@/api/fields";
import { Button, formatTokens } from "@/design";
import { FormDialog } from "@/parts/form/FormDialog";
import { FormField } from "@/parts/form/FormField";
import { useForm } from "@/parts/form/useForm";
import { moreTexts as texts } from "@/texts/runs";
import { suggestedMore, tokensPerLeaf } from "./more";
import type { Run } from "./queries";
import { useChangeRun } from "./useRunActions";

/** Raises the number of finished candidates, and the budget for them. */
export function MakeMoreButton({ run }: { run: Run }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Button
        look={run.status === "completed" ? "go" : "plain"}
        icon={<Plus size={16} />}
        onClick={() => setOpen(true)}
      >
        {texts.more}
      </Button>
      {isOpen && <MakeMoreDialog run={run} onClose={() => setOpen(false)} />}
    </>
  );
}

function MakeMoreDialog({ run, onClose }: { run: Run; onClose: () => void }) {
  // The suggestion at the time when the dialog opened, because a run changes often.
  const [suggested] = useState(() => suggestedMore(run));
  const perLeaf = tokensPerLeaf(run);
  const form = useForm({
    saved: { target_leaves: String(suggested.target), budget: String(suggested.budget) },
    save: useChangeRun(run.id, (changed) => texts.done(changed.target_leaves), onClose),
    body: ({ target_leaves, budget }) => ({ target_leaves: Number(target_leaves), budget: Number(budget) }),
  });
  const number = { form, type: "number", inputMode: "numeric", step: 1, required: true } as const;
  return (
    <FormDialog
      form={form}
      isChecked
      title={texts.title}
      text={texts.text(run.leaves, formatTokens(run.spent))}
      action={texts.start}
      cancel={texts.stop}
      onClose={onClose}
    >
      <FormField
        {...number}
        name="target_leaves"
        label={texts.target}
        min={run.target_leaves + 1}
        max={UpdateRun.target_leaves.maximum}
      />
      <FormField
        {...number}
        name="budget"
        label={texts.budget}
        hint={perLeaf === null ? undefined : texts.budgetHint(formatTokens(perLeaf))}
        min={Math.max(1, run.spent)}
      />
    </FormDialog>
  );
}
