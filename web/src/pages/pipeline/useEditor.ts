import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { keys } from "@/api/keys";
import { ApiError } from "@/api/problems";
import { notifyDone, notifyError } from "@/parts/notify";
import { useDebounced } from "@/parts/useDebounced";
import { useDraft } from "@/parts/useDraft";
import { editorTexts, runPanelTexts } from "@/texts/pipelines";
import {
  differs,
  missingIn,
  namesOf,
  newStepsOf,
  type PipelineDraft,
  problemsByStep,
  type StepWorkflow,
  workflowOf,
} from "./draft";
import { type Pipeline, previewQuery } from "./queries";
import { NO_INPUTS, previewOf, type RunInputs, runOf } from "./run-inputs";
import { useSavePipeline, useStartRun } from "./usePipelineActions";
import { PROMPT, union, variablesOf } from "./variables";

const SETTLE_MS = 500;

interface Options {
  /** null: the pipeline is not saved yet. */
  pipeline: Pipeline | null;
  base: PipelineDraft;
  workflows: readonly StepWorkflow[];
  suggested?: Partial<RunInputs>;
  onSaved: (saved: Pipeline) => Promise<void>;
}

/** State of the editor: the form, the problems from the server, and the actions. */
export function useEditor({ pipeline, base, workflows, suggested, onSaved }: Options) {
  const client = useQueryClient();
  const name = pipeline ? `${pipeline.id}:${pipeline.version}:${pipeline.updated_at}` : `new:${base.name}`;
  const [draft, setDraft, clear] = useDraft(`pipeline:${name}`, base);
  const typed = pipeline ? client.getQueryData<RunInputs>(keys.runInputs(pipeline.id)) : undefined;
  const [inputs, setInputs] = useDraft<RunInputs>(`run:${pipeline?.id ?? name}`, {
    ...NO_INPUTS,
    ...suggested,
    ...typed,
  });
  const [isChecked, setChecked] = useState(false);
  const [isStarting, setStarting] = useState(false);
  const [hasNoBudget, setNoBudget] = useState(false);
  const save = useSavePipeline(pipeline);
  const start = useStartRun();

  const steps = newStepsOf(draft, workflows);
  const names = union(draft.steps.map((step) => namesOf(step, workflowOf(step, workflows))));
  const variables = variablesOf(names);
  const needsPrompt = names.has(PROMPT) || steps.some((step) => step.needs_run_prompt);
  const missing = missingIn(draft, editorTexts);
  const isWhole = steps.length > 0 && missing.every((each) => Object.keys(each).length === 0);
  const question = previewOf(steps, inputs, variables, needsPrompt);
  const settled = useDebounced(JSON.stringify(question), SETTLE_MS);
  const preview = useQuery({
    ...previewQuery(JSON.parse(settled) as typeof question),
    enabled: isChecked && isWhole,
  });

  const ofSteps = problemsByStep([...reasonsOf(preview.error), ...reasonsOf(save.error)], steps.length);
  const problems = ofSteps.map((found, index) => ({ ...found, ...(isChecked ? missing[index] : {}) }));
  const ofRun = Object.fromEntries(
    [
      ...(preview.data?.problems ?? []),
      ...reasonsOf(start.error),
      ...(hasNoBudget ? [{ field: "budget", reason: runPanelTexts.noBudget }] : []),
    ].map((each) => [each.field, each.reason]),
  );
  const isDirty = pipeline === null || differs(draft, base, workflows);

  /** Returns the saved pipeline; null if the server refused it, with the reasons at their fields. */
  const saved = async (): Promise<Pipeline | null> => {
    setChecked(true);
    if (!isWhole) return null;
    try {
      const found = await save.mutateAsync({
        name: draft.name.trim() || editorTexts.untitled,
        description: draft.description.trim(),
        steps,
      });
      client.setQueryData(keys.runInputs(found.id), inputs);
      void notifyDone(pipeline === null ? editorTexts.created : editorTexts.saved(found.version));
      return found;
    } catch (error) {
      if (problemsByStep(reasonsOf(error), steps.length).every((each) => Object.keys(each).length === 0))
        void notifyError(error);
      return null;
    }
  };
  const begin = async () => {
    // The page finds these problems before it writes a version.
    const shown = await client.fetchQuery(previewQuery(question)).catch(() => null);
    const budget = inputs.budget ?? shown?.cost ?? null;
    setNoBudget(shown !== null && budget === null);
    if (shown === null || shown.problems.length > 0 || budget === null) return;
    const found = isDirty ? await saved() : pipeline;
    if (found === null) return;
    try {
      await start.mutateAsync({
        pipeline: found.id,
        run: runOf(found.name, Math.max(1, budget), inputs, variables, needsPrompt),
      });
      clear();
    } catch (error) {
      void notifyError(error);
      if (isDirty) await onSaved(found);
    }
  };
  return {
    draft,
    inputs,
    variables,
    needsPrompt,
    problems,
    ofRun,
    preview,
    isDirty,
    isWhole,
    isStarting,
    isSaving: save.isPending,
    hasWrongSteps: problems.some((each) => Object.keys(each).length > 0),
    isStale: preview.isFetching || settled !== JSON.stringify(question),
    isShown: isChecked && isWhole,
    change: (next: (now: PipelineDraft) => PipelineDraft) => {
      save.reset();
      setDraft(next);
    },
    changeInputs: (next: Partial<RunInputs>) => {
      start.reset();
      setNoBudget(false);
      setInputs((now) => ({ ...now, ...next }));
    },
    discard: clear,
    check: () => setChecked(true),
    save: async () => {
      const found = await saved();
      if (found === null) return;
      await onSaved(found);
      clear();
    },
    start: async () => {
      setChecked(true);
      if (!isWhole || isStarting) return;
      setStarting(true);
      await begin().finally(() => setStarting(false));
    },
  };
}

function reasonsOf(error: unknown): { field: string; reason: string }[] {
  return error instanceof ApiError ? (error.problem.errors ?? []) : [];
}
