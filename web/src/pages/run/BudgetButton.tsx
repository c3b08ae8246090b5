import { useState } from "react";
import { explain, fieldReason } from "@/api/problems";
import { Button, Dialog, Field, formatTokens, Input } from "@/design";
import { budgetTexts } from "@/texts/runs";
import type { Run } from "./queries";
import { useBudget } from "./useRunActions";

export function BudgetButton({ run }: { run: Run }) {
  const [isOpen, setOpen] = useState(false);
  const [text, setText] = useState(String(run.budget));
  const change = useBudget(run.id, () => setOpen(false));
  const refused = change.error ? (fieldReason(change.error, "budget") ?? explain(change.error)) : null;
  const open = (wanted: boolean) => {
    setText(String(run.budget));
    change.reset();
    setOpen(wanted);
  };
  return (
    <>
      <Button size="s" onClick={() => open(true)}>
        {budgetTexts.change}
      </Button>
      <Dialog
        open={isOpen}
        onOpenChange={open}
        title={budgetTexts.change}
        text={budgetTexts.changeText(formatTokens(run.spent))}
      >
        <form
          className="grid gap-4"
          onSubmit={(event) => {
            event.preventDefault();
            change.mutate(Number(text));
          }}
        >
          <Field label={budgetTexts.newBudget} error={refused} required>
            <Input
              type="number"
              inputMode="numeric"
              min={Math.max(1, run.spent)}
              step={1}
              required
              value={text}
              onChange={(event) => setText(event.target.value)}
            />
          </Field>
          <div className="flex justify-end gap-2">
            <Button onClick={() => open(false)}>{budgetTexts.stop}</Button>
            <Button look="go" type="submit" busy={change.isPending}>
              {budgetTexts.save}
            </Button>
          </div>
        </form>
      </Dialog>
    </>
  );
}
