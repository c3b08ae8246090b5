import { Plus } from "lucide-react";
import { useState } from "react";
import { explain, fieldReason } from "@/api/problems";
import { Button, Dialog, Field, formatTokens, Input } from "@/design";
import { moreTexts as texts } from "@/texts/runs";
import { suggestedMore, tokensPerLeaf } from "./more";
import type { Run } from "./queries";
import { useMakeMore } from "./useRunActions";

/** Raises the number of finished candidates, and the budget for them. */
export function MakeMoreButton({ run }: { run: Run }) {
  const [isOpen, setOpen] = useState(false);
  const [target, setTarget] = useState("");
  const [budget, setBudget] = useState("");
  const change = useMakeMore(run.id, () => setOpen(false));
  const perLeaf = tokensPerLeaf(run);
  const reasons = change.error
    ? { target: fieldReason(change.error, "target_leaves"), budget: fieldReason(change.error, "budget") }
    : null;
  const open = (wanted: boolean) => {
    const suggested = suggestedMore(run);
    setTarget(String(suggested.target));
    setBudget(String(suggested.budget));
    change.reset();
    setOpen(wanted);
  };
  return (
    <>
      <Button look={run.status === "completed" ? "go" : "plain"} icon={<Plus size={16} />} onClick={() => open(true)}>
        {texts.more}
      </Button>
      <Dialog
        open={isOpen}
        onOpenChange={open}
        title={texts.title}
        text={texts.text(run.leaves, formatTokens(run.spent))}
      >
        <form
          className="grid gap-4"
          onSubmit={(event) => {
            event.preventDefault();
            change.mutate({ target_leaves: Number(target), budget: Number(budget) });
          }}
        >
          <Field
            label={texts.target}
            error={reasons?.target ?? (reasons && !reasons.budget ? explain(change.error) : null)}
            required
          >
            <Input
              type="number"
              inputMode="numeric"
              min={run.target_leaves + 1}
              max={100_000}
              step={1}
              required
              value={target}
              onChange={(event) => setTarget(event.target.value)}
            />
          </Field>
          <Field
            label={texts.budget}
            hint={perLeaf === null ? undefined : texts.budgetHint(formatTokens(perLeaf))}
            error={reasons?.budget ?? null}
            required
          >
            <Input
              type="number"
              inputMode="numeric"
              min={Math.max(1, run.spent)}
              step={1}
              required
              value={budget}
              onChange={(event) => setBudget(event.target.value)}
            />
          </Field>
          <div className="flex justify-end gap-2">
            <Button onClick={() => open(false)}>{texts.stop}</Button>
            <Button look="go" type="submit" busy={change.isPending}>
              {texts.start}
            </Button>
          </div>
        </form>
      </Dialog>
    </>
  );
}
