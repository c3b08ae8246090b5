import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useEffect, useRef, useState } from "react";
import { ApiError } from "@/api/problems";
import { uploadLimitsQuery, walletQuery } from "@/api/queries";
import type { Effect } from "@/api/types";
import { Segments } from "@/design";
import { type FormValue, type FormValues, labelOf, problemsOf } from "@/parts/form/values";
import { isFileType } from "@/parts/media";
import { ProblemPanel } from "@/parts/ProblemPanel";
import { PropertyForm } from "@/parts/PropertyForm";
import { SeveralFilesField } from "@/parts/SeveralFilesField";
import type { FileValue } from "@/parts/UploadField";
import { acceptanceOf } from "@/parts/upload/acceptance";
import { type SeveralFile, useSeveralFiles } from "@/parts/upload/several";
import { useDraft } from "@/parts/useDraft";
import { effectPageTexts } from "@/texts/effect";
import { gridTexts as texts } from "@/texts/grid";
import { focusFirstProblem } from "../focus";
import { Summary } from "../Summary";
import { useBatchQuote } from "../useBatchQuote";
import { useGenerateBatch } from "../useGenerateBatch";
import { bodyOf, countOf, gridProblems, type Lists, listedProperties, listedValues, MAX_JOBS, type Mode } from "./grid";
import { ListField } from "./ListField";

interface Draft {
  mode: Mode;
  lists: Lists;
  /** Files beside the main one. */
  fixed: FormValues;
}

const MODES = ["cartesian", "zipped"] as const;

/** Lists of values per property. Each combination, or each row, becomes a job of one batch. */
export function GridForm({ effect }: { effect: Effect }) {
  const name = `grid:${effect.slug}`;
  const [draft, setDraft] = useDraft<Draft>(name, { mode: "cartesian", lists: {}, fixed: {} });
  const [kept, setKept] = useDraft<SeveralFile[]>(`${name}:files`, []);
  const [isChecked, setChecked] = useState(false);
  const [isWaiting, setWaiting] = useState(false);
  const uploads = useRef(new Map<string, Promise<FileValue>>());
  const form = useRef<HTMLFormElement>(null);
  const wallet = useQuery(walletQuery);
  const limits = useQuery(uploadLimitsQuery).data;
  const accepts = acceptanceOf(effect.input?.type ?? "image", effect.input ?? {}, limits);
  const several = useSeveralFiles(accepts, kept);
  useEffect(() => setKept(several.files.filter(({ step }) => step === "done")), [several.files, setKept]);
  const batch = useGenerateBatch();
  const { mode, lists, fixed } = draft;
  const listed = listedValues(effect, lists);
  const files = several.files.length;
  const jobs = countOf(listed, files, mode);
  const fixedProperties = effect.properties.filter(({ type }) => isFileType(type));
  const found = { ...gridProblems(effect, listed, files, mode), ...problemsOf(fixedProperties, fixed) };
  const refused = batch.error instanceof ApiError ? batch.error : null;
  const shown = { ...(isChecked ? found : lengthsOnly(found, listed)), ...refusedLists(effect, refused) };
  const needsFile =
    isChecked && effect.input != null && files === 0 ? effectPageTexts.needsFile[effect.input.type] : null;
  const isTooMany = jobs > MAX_JOBS;
  const ids = several.files.flatMap(({ id }) => (id === undefined ? [] : [id]));
  const isReady =
    Object.keys(found).length === 0 && !isTooMany && (effect.input == null || (files > 0 && ids.length === files));
  const price = useBatchQuote(effect, isReady ? bodyOf(effect, listed, mode, ids, fixed) : null, jobs);

  const change = (part: Partial<Draft>) => {
    batch.reset();
    setDraft((now) => ({ ...now, ...part }));
  };
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (isWaiting || batch.isPending || isTooMany) return;
    setChecked(true);
    const open = Object.keys(found).filter((key) => !uploads.current.has(key));
    if (open.length > 0 || (effect.input && files === 0)) return focusFirstProblem(form.current);
    setWaiting(true);
    try {
      const arrived = await Promise.all([...uploads.current].map(async ([key, file]) => [key, await file] as const));
      const fileIds = await several.ready();
      if (fileIds === null) return focusFirstProblem(form.current);
      batch.submit(bodyOf(effect, listed, mode, fileIds, { ...fixed, ...Object.fromEntries(arrived) }));
    } catch {
      focusFirstProblem(form.current); // the field shows why its upload failed
    } finally {
      setWaiting(false);
    }
  };
  return (
    <form
      ref={form}
      onSubmit={(event) => void submit(event)}
      noValidate
      className="panel grid min-w-0 gap-5 p-4 sm:p-5"
    >
      <p className="text-s text-muted">{texts.text}</p>
      {effect.input && (
        <SeveralFilesField
          label={labelOf({ key: effect.input.type, label: effect.input.label === "input" ? "" : effect.input.label })}
          accepts={accepts}
          several={several}
          error={needsFile}
        />
      )}
      {listedProperties(effect).map((property) => (
        <ListField
          key={property.key}
          property={property}
          list={lists[property.key]}
          error={shown[property.key]}
          onChange={(list) => change({ lists: { ...lists, [property.key]: list } })}
        />
      ))}
      <PropertyForm
        name={name}
        properties={fixedProperties}
        values={fixed}
        onChange={(key: string, value: FormValue) => change({ fixed: { ...fixed, [key]: value } })}
        problems={shown}
        limits={limits}
        onPending={(key, uploading) =>
          void (uploading === null ? uploads.current.delete(key) : uploads.current.set(key, uploading))
        }
      />
      <div className="grid gap-1.5">
        <Segments
          label={texts.mode}
          value={mode}
          choices={MODES.map((value) => ({ value, label: texts.modes[value] }))}
          onChange={(next) => change({ mode: next })}
          className="w-full *:grow"
        />
        <p className="text-s text-muted">{texts.modeHints[mode]}</p>
      </div>
      {isTooMany ? (
        <p role="alert" className="rounded-s bg-bad-soft px-3 py-2 text-s text-bad">
          {texts.tooMany(jobs, MAX_JOBS)}
        </p>
      ) : (
        <p role="status" className="num font-[550]">
          {texts.count(jobs)}
        </p>
      )}
      {batch.error !== null && refused?.code !== "insufficient_tokens" && <ProblemPanel error={batch.error} />}
      <Summary
        effect={effect}
        price={price}
        jobs={jobs}
        wallet={wallet.data}
        refused={refused}
        isUploading={isWaiting}
        isSubmitting={batch.isPending || batch.isSuccess}
        isBlocked={isTooMany}
      />
    </form>
  );
}

/** Before the first press, a list that is empty has no problem yet. */
function lengthsOnly(problems: Record<string, string>, listed: Record<string, unknown>): Record<string, string> {
  return Object.fromEntries(Object.entries(problems).filter(([key]) => key in listed));
}

/** The reasons of the API: `grid.values.strength.2` belongs to the list of `strength`. */
function refusedLists(effect: Effect, refused: ApiError | null): Record<string, string> {
  const found = effect.properties.flatMap(({ key }) => {
    const places = [`grid.values.${key}`, `input_payload.${key}`];
    const problem = refused?.problem.errors?.find(({ field }) =>
      places.some((place) => field === place || field.startsWith(`${place}.`)),
    );
    return problem ? [[key, problem.reason] as const] : [];
  });
  return Object.fromEntries(found);
}
