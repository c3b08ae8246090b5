import { useQuery } from "@tanstack/react-query";
import { CodeXml } from "lucide-react";
import { type FormEvent, lazy, Suspense, useRef, useState } from "react";
import { ApiError } from "@/api/problems";
import { uploadLimitsQuery, walletQuery } from "@/api/queries";
import type { Effect } from "@/api/types";
import { Button } from "@/design";
import {
  type FormValue,
  type FormValues,
  initialValues,
  labelOf,
  mergedValues,
  payloadOf,
  problemsOf,
} from "@/parts/form/values";
import { ProblemPanel } from "@/parts/ProblemPanel";
import { PropertyForm } from "@/parts/PropertyForm";
import { SeveralFilesField } from "@/parts/SeveralFilesField";
import { type FileValue, UploadField } from "@/parts/UploadField";
import { acceptanceOf } from "@/parts/upload/acceptance";
import { useSeveralFiles } from "@/parts/upload/several";
import { useDraft } from "@/parts/useDraft";
import { effectPageTexts } from "@/texts/effect";
import { effectCodeTexts } from "@/texts/effect-code";
import { formTexts } from "@/texts/form";
import type { Earlier } from "./earlier";
import { focusFirstProblem } from "./focus";
import { Summary } from "./Summary";
import { snippetsOf } from "./snippets";
import { useBatchQuote } from "./useBatchQuote";
import { useGenerate } from "./useGenerate";
import { useGenerateBatch } from "./useGenerateBatch";
import { useQuote } from "./useQuote";

const CodeDialog = lazy(() => import("./CodeDialog"));

interface Draft {
  input: FileValue | null;
  values: FormValues;
}

interface Props {
  effect: Effect;
  /** The job whose values fill the form. */
  from?: string;
  /** Whether the user chooses another file than that job had. */
  isOther?: boolean;
  earlier: Earlier | null;
  isEarlierGone: boolean;
}

// Key of the main file in the draft. It is beside the values, and no property can have this key.
const INPUT = "input_file_id";

export function EffectForm({ effect, from, isOther, earlier, isEarlierGone }: Props) {
  const name = `effect:${effect.slug}${from ? `:${from}` : ""}${isOther ? ":other" : ""}`;
  const [draft, setDraft] = useDraft<Draft>(name, { input: earlier?.input ?? null, values: earlier?.values ?? {} });
  const [isChecked, setChecked] = useState(false);
  const [isWaiting, setWaiting] = useState(false);
  const [isCodeShown, setCodeShown] = useState(false);
  const uploads = useRef(new Map<string, Promise<FileValue>>());
  const form = useRef<HTMLFormElement>(null);
  const wallet = useQuery(walletQuery);
  const limits = useQuery(uploadLimitsQuery).data;
  const accepts = acceptanceOf(effect.input?.type ?? "image", effect.input ?? {}, limits);
  const several = useSeveralFiles(accepts);
  const isBatch = several.files.length > 0;
  const one = useGenerate(effect);
  const batch = useGenerateBatch();
  const generate = isBatch ? batch : one;
  const values = mergedValues(effect.properties, draft.values ?? {});
  const filesBody = (ids: readonly string[], all: FormValues) => ({
    effect_id: effect.slug,
    input_payload: payloadOf(effect.properties, all),
    items: ids.map((id) => ({ input_file_id: id })),
  });
  const uploaded = several.files.flatMap(({ id }) => (id === undefined ? [] : [id]));
  const isUploaded = isBatch && uploaded.length === several.files.length;
  const price = useQuote(effect, draft.input, values);
  const batchPrice = useBatchQuote(effect, isUploaded ? filesBody(uploaded, values) : null, several.files.length);
  const refused = generate.error instanceof ApiError ? generate.error : null;
  const problems = { ...(isChecked ? problemsOf(effect.properties, values) : {}), ...refusedFields(effect, refused) };
  const inputProblem =
    refused?.fieldReason(INPUT) ??
    refused?.fieldReason("video_id") ??
    (isChecked && effect.input && !isBatch && !draft.input && uploads.current.size === 0
      ? effectPageTexts.needsFile[effect.input.type]
      : null);

  const change = (key: string, value: FormValue) => {
    generate.reset();
    setDraft((now) => ({ ...now, values: { ...mergedValues(effect.properties, now.values ?? {}), [key]: value } }));
  };
  const setPending = (key: string, uploading: Promise<FileValue> | null) => {
    if (uploading === null) uploads.current.delete(key);
    else uploads.current.set(key, uploading);
  };
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (isWaiting || generate.isPending) return;
    setChecked(true);
    const pending = uploads.current;
    const open = effect.properties.filter((each) => !pending.has(each.key));
    const isInputMissing = effect.input != null && !isBatch && draft.input === null && !pending.has(INPUT);
    if (Object.keys(problemsOf(open, values)).length > 0 || isInputMissing) return focusFirstProblem(form.current);
    setWaiting(true);
    try {
      // A press during an upload counts: the job is submitted when the upload is done.
      const arrived = Object.fromEntries(
        await Promise.all([...pending].map(async ([key, uploading]) => [key, await uploading] as const)),
      );
      const { [INPUT]: input = draft.input, ...files } = arrived;
      if (!isBatch) return one.submit({ input, values: { ...values, ...files } });
      const fileIds = await several.ready();
      if (fileIds === null) return focusFirstProblem(form.current);
      batch.submit(filesBody(fileIds, { ...values, ...files }));
    } catch {
      focusFirstProblem(form.current); // the field shows why its upload failed
    } finally {
      setWaiting(false);
    }
  };
  const hasChanges =
    draft.input !== null || JSON.stringify(values) !== JSON.stringify(initialValues(effect.properties));
  const inputType = effect.input?.type ?? "";
  const inputLabel = labelOf({
    key: effect.input?.label === "input" ? inputType : (effect.input?.label ?? ""),
    label: "",
  });
  return (
    <form
      ref={form}
      onSubmit={(event) => void submit(event)}
      noValidate
      className="panel grid min-w-0 gap-5 p-4 sm:p-5"
    >
      {from && (
        <p className="-mb-1 text-s text-muted">
          {isEarlierGone ? effectPageTexts.fromJobGone : effectPageTexts.fromJob}
        </p>
      )}
      {effect.input && isBatch && <SeveralFilesField label={inputLabel} accepts={accepts} several={several} />}
      {effect.input && !isBatch && (
        <UploadField
          name={`${name}:${INPUT}`}
          label={inputLabel}
          hint={effect.input.description || undefined}
          required
          isMain
          accepts={accepts}
          value={draft.input}
          error={inputProblem}
          onChange={(input) => {
            generate.reset();
            setDraft((now) => ({ ...now, input }));
          }}
          onPending={(uploading) => setPending(INPUT, uploading)}
          onSeveral={(files) => {
            setDraft((now) => ({ ...now, input: null }));
            several.add(files);
          }}
        />
      )}
      <PropertyForm
        name={name}
        properties={effect.properties}
        values={values}
        onChange={change}
        problems={problems}
        limits={limits}
        onPending={setPending}
      />
      {refused !== null &&
        refused.code !== "insufficient_tokens" &&
        Object.keys(problems).length === 0 &&
        inputProblem === null && <ProblemPanel error={refused} />}
      {generate.error !== null && refused === null && <ProblemPanel error={generate.error} />}
      <div className="-mx-2.5 -my-2 flex flex-wrap items-center justify-between gap-x-4">
        <Button look="quiet" size="s" icon={<CodeXml size={15} aria-hidden />} onClick={() => setCodeShown(true)}>
          {effectCodeTexts.open}
        </Button>
        {hasChanges && effect.properties.length > 0 && (
          <Button
            look="quiet"
            size="s"
            onClick={() => setDraft((now) => ({ ...now, values: initialValues(effect.properties) }))}
          >
            {formTexts.reset}
          </Button>
        )}
      </div>
      {isCodeShown && (
        <Suspense>
          <CodeDialog
            snippets={snippetsOf(effect, draft.input, values, window.location.origin)}
            isFileMissing={effect.input != null && draft.input === null}
            onClose={() => setCodeShown(false)}
          />
        </Suspense>
      )}
      <Summary
        effect={effect}
        price={isBatch ? batchPrice : price}
        jobs={isBatch ? several.files.length : 1}
        wallet={wallet.data}
        refused={refused}
        isUploading={isWaiting}
        isSubmitting={generate.isPending || generate.isSuccess}
      />
    </form>
  );
}

function refusedFields(effect: Effect, refused: ApiError | null): Record<string, string> {
  if (refused === null) return {};
  const found = effect.properties.map(({ key }) => [key, refused.fieldReason(`input_payload.${key}`)] as const);
  return Object.fromEntries(found.filter((entry): entry is readonly [string, string] => entry[1] !== null));
}
