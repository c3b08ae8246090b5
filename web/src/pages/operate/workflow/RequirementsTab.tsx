import { useState } from "react";
import { fieldReason } from "@/api/problems";
import type { Schemas } from "@/api/types";
import { Field, Input, Textarea } from "@/design";
import { BooleanField } from "@/parts/form/BooleanField";
import { requirementsTexts as texts } from "@/texts/requirements";
import { RequiredModels } from "./RequiredModels";
import { changesRequirements, namesIn, reasonBelow, shownText } from "./requirements";
import { SavedRequirements } from "./SavedRequirements";
import { WorkersPanel } from "./WorkersPanel";
import type { EditorProps } from "./WorkflowPage";

type Requirements = Schemas["Requirements"];

/** Requirements of the workflow for an engine, and the workers that meet them. */
export function RequirementsTab({ workflow, editing: { draft, diff, change }, mayChange, refused }: EditorProps) {
  const requirements = (draft.requirements ?? {}) as Requirements;
  const set = (values: Partial<Requirements>) =>
    change((now) => ({ ...now, requirements: { ...now.requirements, ...values } }));
  const fromGraph = requirements.from_graph ?? true;
  return (
    <div className="grid items-start gap-6 lg:grid-cols-[minmax(0,1fr)_minmax(20rem,26rem)]">
      <fieldset disabled={!mayChange} className="panel grid min-w-0 gap-5 p-4 sm:p-5">
        <legend className="sr-only">{texts.title}</legend>
        <div>
          <h2>{texts.title}</h2>
          <p className="mt-0.5 text-s text-muted">{texts.text}</p>
        </div>
        <BooleanField
          label={texts.fromGraph}
          hint={texts.fromGraphHint}
          value={fromGraph}
          disabled={!mayChange}
          onChange={(from_graph) => set({ from_graph })}
        />
        {fromGraph && (
          <Names
            label={texts.ignore}
            hint={texts.ignoreHint}
            names={requirements.ignore ?? []}
            error={reasonBelow(refused, "requirements.ignore")}
            onChange={(ignore) => set({ ignore })}
          />
        )}
        <Names
          label={texts.nodeClasses}
          hint={texts.nodeClassesHint}
          names={requirements.node_classes ?? []}
          error={reasonBelow(refused, "requirements.node_classes")}
          onChange={(node_classes) => set({ node_classes })}
        />
        <RequiredModels
          models={requirements.models ?? []}
          refused={refused}
          mayChange={mayChange}
          onChange={(models) => set({ models })}
        />
        <Field
          label={texts.version}
          hint={texts.versionHint}
          error={fieldReason(refused, "requirements.engine_version")}
        >
          <Input
            value={requirements.engine_version ?? ""}
            maxLength={100}
            autoComplete="off"
            spellCheck={false}
            onChange={(event) => set({ engine_version: event.target.value.trim() === "" ? null : event.target.value })}
          />
        </Field>
      </fieldset>
      <div className="grid gap-6">
        <WorkersPanel slug={workflow.slug} isOutdated={changesRequirements(diff)} />
        {workflow.required && <SavedRequirements required={workflow.required} />}
      </div>
    </div>
  );
}

interface NamesProps {
  label: string;
  hint: string;
  names: readonly string[];
  error: string | undefined;
  onChange: (names: string[]) => void;
}

/** A list of names, one per line. */
function Names({ label, hint, names, error, onChange }: NamesProps) {
  const [typed, setTyped] = useState("");
  const change = (text: string) => {
    setTyped(text);
    onChange(namesIn(text));
  };
  return (
    <Field label={label} hint={hint} error={error}>
      <Textarea
        rows={2}
        value={shownText(typed, names)}
        spellCheck={false}
        onChange={(event) => change(event.target.value)}
      />
    </Field>
  );
}
