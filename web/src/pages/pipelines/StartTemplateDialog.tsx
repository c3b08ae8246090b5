import { useQuery } from "@tanstack/react-query";
import { Play } from "lucide-react";
import { type FormEvent, useState } from "react";
import { ApiError, fieldReason } from "@/api/problems";
import { walletQuery } from "@/api/queries";
import { Button, Dialog, Field, formatTokens, Input, Textarea } from "@/design";
import { titled } from "@/parts/form/values";
import type { PipelineTemplate } from "@/parts/pipeline/queries";
import { Refusal } from "@/parts/Refusal";
import { payerOf } from "@/parts/wallet/payer";
import { pipelinesTexts, runPanelTexts } from "@/texts/pipelines";
import { useStartTemplate } from "./useStartTemplate";

/** The template's suggestions are filled in, so one more click starts the run. */
export function StartTemplateDialog({ template, onClose }: { template: PipelineTemplate; onClose: () => void }) {
  const [prompt, setPrompt] = useState(template.run.prompt ?? "");
  const [variables, setVariables] = useState<Record<string, string>>(() =>
    Object.fromEntries(Object.entries(template.run.variables).map(([name, value]) => [name, String(value)])),
  );
  const [budget, setBudget] = useState(String(Math.max(1, template.cost)));
  const wallet = useQuery(walletQuery);
  const start = useStartTemplate(template);
  const needsPrompt = template.steps.some((step) => step.needs_run_prompt);
  const reasons = start.error instanceof ApiError ? (start.error.problem.errors ?? []) : [];
  const isAtField = reasons.some(
    (each) => each.field === "prompt" || each.field === "budget" || each.field.startsWith("variables."),
  );
  const submit = (event: FormEvent) => {
    event.preventDefault();
    start.submit({ prompt: needsPrompt ? prompt : null, variables, budget: Number(budget) });
  };
  return (
    <Dialog onClose={onClose} title={pipelinesTexts.startTitle(template.name)} text={template.description}>
      <form onSubmit={submit} noValidate className="grid gap-4">
        {needsPrompt && (
          <Field label={runPanelTexts.prompt} error={fieldReason(start.error, "prompt")}>
            <Textarea value={prompt} autoFocus onChange={(event) => setPrompt(event.target.value)} />
          </Field>
        )}
        {Object.entries(variables).map(([name, value]) => (
          <Field
            key={name}
            label={titled(name)}
            hint={runPanelTexts.variableHint(name)}
            error={fieldReason(start.error, `variables.${name}`)}
          >
            <Input
              value={value}
              onChange={(event) => setVariables((now) => ({ ...now, [name]: event.target.value }))}
            />
          </Field>
        ))}
        <Field
          label={runPanelTexts.budget}
          hint={runPanelTexts.budgetHint}
          aside={wallet.data && `${runPanelTexts.balance[payerOf(wallet.data)]}: ${formatTokens(wallet.data.balance)}`}
          error={fieldReason(start.error, "budget")}
        >
          <Input
            inputMode="numeric"
            value={budget}
            className="num"
            onChange={(event) => setBudget(event.target.value.replace(/\D/g, ""))}
          />
        </Field>
        <Refusal error={isAtField ? null : start.error} />
        <Button type="submit" look="go" size="l" busy={start.isPending} icon={<Play size={16} aria-hidden />}>
          {start.isPending ? runPanelTexts.starting : runPanelTexts.start}
        </Button>
      </form>
    </Dialog>
  );
}
