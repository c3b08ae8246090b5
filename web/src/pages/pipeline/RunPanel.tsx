import { ChevronRight, FlaskConical, Play } from "lucide-react";
import { CreateRun } from "@/api/fields";
import { Button, Field, Input, Segments, Textarea } from "@/design";
import { NumberField } from "@/parts/form/NumberField";
import { titled } from "@/parts/form/values";
import { runPanelTexts } from "@/texts/pipelines";
import type { RunInputs } from "./run-inputs";

interface Props {
  inputs: RunInputs;
  onChange: (change: Partial<RunInputs>) => void;
  variables: readonly string[];
  needsPrompt: boolean;
  /** Reasons per field of the run. */
  problems: Record<string, string>;
  expectedCost: number | null;
  isDirty: boolean;
  isStarting: boolean;
  isChecking: boolean;
  canStart: boolean;
  onDryRun: () => void;
  onStart: () => void;
}

const STRATEGIES = Object.entries(runPanelTexts.strategies).map(([value, label]) => ({
  value: value as RunInputs["strategy"],
  label,
}));

/** Inputs of a run, and the buttons for a dry run and the start. */
export function RunPanel({
  inputs,
  onChange,
  variables,
  needsPrompt,
  problems,
  expectedCost,
  isDirty,
  isStarting,
  isChecking,
  canStart,
  onDryRun,
  onStart,
}: Props) {
  return (
    <form
      noValidate
      className="grid gap-4"
      onSubmit={(event) => {
        event.preventDefault();
        onDryRun();
      }}
    >
      {needsPrompt && (
        <Field label={runPanelTexts.prompt} hint={runPanelTexts.promptHint} error={problems.prompt}>
          <Textarea rows={2} value={inputs.prompt} onChange={(event) => onChange({ prompt: event.target.value })} />
        </Field>
      )}
      {variables.map((name) => (
        <Field
          key={name}
          label={titled(name)}
          hint={runPanelTexts.variableHint(name)}
          error={problems[`variables.${name}`]}
        >
          <Input
            value={inputs.variables[name] ?? ""}
            onChange={(event) => onChange({ variables: { ...inputs.variables, [name]: event.target.value } })}
          />
        </Field>
      ))}
      <NumberField
        label={runPanelTexts.leaves}
        error={problems.target_leaves}
        value={inputs.leaves}
        limits={{ min: 1, integer: true }}
        onChange={(leaves) =>
          leaves !== null &&
          onChange({ leaves: Math.min(CreateRun.target_leaves.maximum, Math.max(1, Math.round(leaves))) })
        }
      />
      <Field label={runPanelTexts.strategy} hint={runPanelTexts.strategyHint[inputs.strategy]}>
        <Segments
          value={inputs.strategy}
          choices={STRATEGIES}
          onChange={(strategy) => onChange({ strategy })}
          label={runPanelTexts.strategy}
          className="w-full *:grow"
        />
      </Field>
      <details className="group" open={problems.seed || problems.budget ? true : undefined}>
        <summary className="flex min-h-8 list-none items-center gap-1 text-s text-muted hover:text-text touch:min-h-11">
          <ChevronRight size={14} aria-hidden className="transition-transform duration-100 group-open:rotate-90" />
          {runPanelTexts.more}
        </summary>
        <div className="grid gap-4 pt-3">
          <NumberField
            label={runPanelTexts.budget}
            hint={runPanelTexts.budgetHint}
            error={problems.budget}
            value={inputs.budget ?? expectedCost}
            limits={{ min: 1, integer: true }}
            onChange={(budget) => onChange({ budget })}
          />
          <NumberField
            label={runPanelTexts.seed}
            hint={runPanelTexts.seedHint}
            error={problems.seed}
            value={inputs.seed === "" ? null : Number(inputs.seed)}
            limits={{ min: 0, max: CreateRun.seed.maximum, integer: true }}
            onChange={(seed) => onChange({ seed: seed === null ? "" : String(Math.round(seed)) })}
          />
        </div>
      </details>
      <div className="flex flex-wrap gap-2">
        <Button type="submit" busy={isChecking} className="grow" icon={<FlaskConical size={16} aria-hidden />}>
          {runPanelTexts.dryRun}
        </Button>
        <Button
          look="go"
          busy={isStarting}
          disabled={!canStart}
          className="grow"
          onClick={onStart}
          icon={<Play size={16} aria-hidden />}
        >
          {isStarting ? runPanelTexts.starting : isDirty ? runPanelTexts.saveAndStart : runPanelTexts.start}
        </Button>
      </div>
    </form>
  );
}
