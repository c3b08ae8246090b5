import { Field, formatNumber, Input, Textarea } from "@/design";
import type { Actor } from "@/parts/actors";
import { ProblemPanel } from "@/parts/ProblemPanel";
import { ChainDrawing } from "@/parts/pipeline/ChainDrawing";
import { countsPerBase, expectedCounts } from "@/parts/pipeline/chain";
import { editorTexts, runPanelTexts } from "@/texts/pipelines";
import { DryRunResult } from "./DryRunResult";
import { MAX_STEPS, type StepWorkflow } from "./draft";
import { RunPanel } from "./RunPanel";
import { StepList } from "./StepList";
import type { useEditor } from "./useEditor";

interface Props {
  editor: ReturnType<typeof useEditor>;
  workflows: readonly StepWorkflow[];
  actors: readonly Actor[];
  isReadOnly: boolean;
}

/** The steps with a drawing of their chain, and the inputs of a run beside them. */
export function Editor({ editor, workflows, actors, isReadOnly }: Props) {
  const { draft, inputs, preview } = editor;
  const steps = draft.steps.slice(0, MAX_STEPS);
  const chain = steps.map((step, index) => ({ ...step, top_k: index < steps.length - 1 ? step.top_k : null }));
  const perBase = countsPerBase(chain);
  const expected = expectedCounts(chain, inputs.leaves, inputs.strategy);
  const hasTree = perBase.length > 0;
  const links = chain.map((step, index) => ({
    name: step.name || editorTexts.stepNumber(index + 1),
    count: expected[index]!,
    hasGate: index < steps.length - 1 && step.requires_approval,
    best: step.top_k,
  }));
  const isRefused = preview.isError && !editor.hasWrongSteps;
  return (
    <fieldset
      disabled={isReadOnly}
      className="grid min-w-0 items-start gap-6 lg:grid-cols-[minmax(0,1fr)_22rem] xl:grid-cols-[minmax(0,1fr)_26rem]"
    >
      <div className="grid min-w-0 gap-4">
        <div className="grid items-start gap-4 sm:grid-cols-2">
          <Field label={editorTexts.name}>
            <Input
              value={draft.name}
              maxLength={200}
              placeholder={editorTexts.untitled}
              onChange={(event) => editor.change((now) => ({ ...now, name: event.target.value }))}
            />
          </Field>
          <Field label={editorTexts.description}>
            <Textarea
              rows={1}
              className="min-h-9! leading-normal!"
              value={draft.description}
              onChange={(event) => editor.change((now) => ({ ...now, description: event.target.value }))}
            />
          </Field>
        </div>
        {hasTree && (
          <section aria-label={editorTexts.drawing} className="panel grid gap-3 p-4 sm:p-5">
            <div className="flex flex-wrap items-baseline justify-between gap-x-4">
              <h2>{editorTexts.drawing}</h2>
              <p className="num text-s text-muted">
                {perBase.map((count) => formatNumber(count)).join(" → ")} {editorTexts.drawingText}
              </p>
            </div>
            <ChainDrawing links={links} />
          </section>
        )}
        {!hasTree && <p className="text-muted">{editorTexts.firstStepText}</p>}
        <div>
          <StepList
            steps={steps}
            workflows={workflows}
            actors={actors}
            problems={editor.problems}
            onChange={(change) => editor.change((now) => ({ ...now, steps: change(now.steps) }))}
          />
        </div>
      </div>
      <section
        aria-label={runPanelTexts.title}
        className="panel grid min-w-0 gap-4 p-4 sm:p-5 lg:sticky lg:top-20 lg:max-h-[calc(100dvh-6rem)] lg:overflow-y-auto"
      >
        <h2>{runPanelTexts.title}</h2>
        <RunPanel
          inputs={inputs}
          onChange={editor.changeInputs}
          variables={editor.variables}
          needsPrompt={editor.needsPrompt}
          problems={editor.ofRun}
          expectedCost={preview.data?.cost ?? null}
          isDirty={editor.isDirty}
          isStarting={editor.isStarting}
          isChecking={editor.isShown && editor.isStale}
          canStart={steps.length > 0}
          onDryRun={editor.check}
          onStart={() => void editor.start()}
        />
        {editor.hasWrongSteps && (
          <p role="alert" className="rounded-s bg-bad-soft px-3 py-2 text-s text-bad">
            {runPanelTexts.fixSteps}
          </p>
        )}
        {isRefused && <ProblemPanel error={preview.error} />}
        {editor.isShown && preview.data && !preview.isError && (
          <DryRunResult preview={preview.data} isStale={editor.isStale} />
        )}
      </section>
    </fieldset>
  );
}
