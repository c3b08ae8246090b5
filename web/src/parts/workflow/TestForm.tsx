import { useQuery } from "@tanstack/react-query";
import { Play } from "lucide-react";
import { type FormEvent, useRef, useState } from "react";
import { ApiError } from "@/api/problems";
import { uploadLimitsQuery } from "@/api/queries";
import { Button } from "@/design";
import { type FormValue, type FormValues, labelOf, mergedValues, payloadOf, problemsOf } from "@/parts/form/values";
import { isFileType } from "@/parts/media";
import { ProblemPanel } from "@/parts/ProblemPanel";
import { PropertyForm } from "@/parts/PropertyForm";
import { type FileValue, UploadField } from "@/parts/UploadField";
import { acceptanceOf } from "@/parts/upload/acceptance";
import { workflowsTexts } from "@/texts/workflows";
import type { Draft, Property } from "./draft";
import { formProperty } from "./form";
import { useTestRun } from "./useTestRun";

interface Props {
  slug: string;
  properties: readonly Property[];
  overrides?: Record<string, unknown>;
  draft: Draft | null;
  mayRun: boolean;
  stage: string | undefined;
  onJob: (id: string) => void;
}

// No property can have this key.
const INPUT = "input_file_id";

/** The values that users of an effect fill in, and below them the values that only effects set. */
export function TestForm({ slug, properties, overrides = {}, draft, mayRun, stage, onJob }: Props) {
  const [values, setValues] = useState<FormValues>({});
  const [input, setInput] = useState<FileValue | null>(null);
  const [isChecked, setChecked] = useState(false);
  const uploads = useRef(new Map<string, Promise<FileValue>>());
  const limits = useQuery(uploadLimitsQuery).data;
  const run = useTestRun(slug, onJob);
  const primary = properties.find((each) => each.is_primary_input);
  const plain = properties.filter((each) => !each.is_primary_input);
  const shown = plain.filter((each) => each.user_configurable).map((each) => formProperty(each, overrides[each.key]));
  const hidden = plain.filter((each) => !each.user_configurable).map((each) => formProperty(each, overrides[each.key]));
  const all = [...shown, ...hidden];
  const merged = mergedValues(all, values);
  const refused = run.error instanceof ApiError ? run.error : null;
  const problems = {
    ...(isChecked ? problemsOf(all, merged) : {}),
    ...Object.fromEntries(all.flatMap(({ key }) => reasonOf(refused, key))),
  };
  const inputProblem =
    refused?.fieldReason(INPUT) ??
    (isChecked && primary && input === null && !uploads.current.has(INPUT) ? workflowsTexts.needsFile : null);
  const isNamed = Object.keys(problems).length > 0 || inputProblem !== null;
  const setPending = (key: string, uploading: Promise<FileValue> | null) => {
    if (uploading === null) uploads.current.delete(key);
    else uploads.current.set(key, uploading);
  };
  const change = (key: string, value: FormValue) => {
    run.reset();
    setValues((now) => ({ ...now, [key]: value }));
  };
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setChecked(true);
    const pending = uploads.current;
    if (
      Object.keys(
        problemsOf(
          all.filter((each) => !pending.has(each.key)),
          merged,
        ),
      ).length > 0 ||
      (primary && input === null && !pending.has(INPUT))
    )
      return;
    const arrived = Object.fromEntries(
      await Promise.all([...pending].map(async ([key, uploading]) => [key, await uploading] as const)),
    );
    const { [INPUT]: file = input, ...files } = arrived;
    // Untouched values keep their saved form, because a field may show them rounded.
    const touched = { ...values, ...files };
    const sent = all.filter((each) => each.key in touched || each.default == null);
    run.mutate({ values: payloadOf(sent, { ...merged, ...files }), fileId: file?.id, overrides, draft, stage });
  };
  return (
    <form onSubmit={(event) => void submit(event).catch(() => undefined)} noValidate className="grid min-w-0 gap-4">
      {primary && isFileType(primary.type) && (
        <UploadField
          name={`test:${slug}:${INPUT}`}
          label={labelOf({ key: primary.type, label: primary.label ?? "" })}
          hint={primary.description || undefined}
          required
          accepts={acceptanceOf(primary.type, { ...primary.limits, accept: [`${primary.type}/*`] }, limits)}
          value={input}
          error={inputProblem}
          onChange={(file) => {
            run.reset();
            setInput(file);
          }}
          onPending={(uploading) => setPending(INPUT, uploading)}
        />
      )}
      <PropertyForm
        name={`test:${slug}`}
        properties={shown}
        values={merged}
        onChange={change}
        problems={problems}
        limits={limits}
        onPending={setPending}
      />
      {hidden.length > 0 && (
        <fieldset className="grid gap-4 rounded-m border border-dashed p-3">
          <legend className="px-1 text-s text-muted">{workflowsTexts.hidden}</legend>
          <PropertyForm
            name={`test:${slug}`}
            properties={hidden}
            values={merged}
            onChange={change}
            problems={problems}
            limits={limits}
            onPending={setPending}
          />
        </fieldset>
      )}
      {run.error !== null && !isNamed && <ProblemPanel error={run.error} />}
      {draft !== null && mayRun && <p className="text-s text-muted">{workflowsTexts.unsavedTest}</p>}
      {mayRun && (
        <Button type="submit" busy={run.isPending} icon={<Play size={16} />}>
          {run.isPending ? workflowsTexts.running : workflowsTexts.run}
        </Button>
      )}
    </form>
  );
}

function reasonOf(refused: ApiError | null, key: string): [string, string][] {
  const reason = refused?.fieldReason(`input_payload.${key}`) ?? refused?.fieldReason(`overrides.${key}`);
  return reason ? [[key, reason]] : [];
}
