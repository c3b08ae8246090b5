import { ArrowRight, Minus, MoveVertical, PencilLine, Plus } from "lucide-react";
import { Button, Select } from "@/design";
import { titled } from "@/parts/form/values";
import { editorTexts, versionTexts } from "@/texts/pipelines";
import { changesBetween, type FieldChange, type StepChange, wordDiff } from "./diff";
import type { StepWorkflow } from "./draft";
import type { PipelineVersion } from "./queries";

interface Props {
  chosen: PipelineVersion;
  /** null: there is no version to compare with. */
  before: PipelineVersion | null;
  numbers: readonly number[];
  workflows: readonly StepWorkflow[];
  onCompare: (version: number) => void;
  onRestore: (() => void) | null;
}

const ICONS = { added: Plus, removed: Minus, changed: PencilLine };
const LOOKS = { added: "text-ok bg-ok-soft", removed: "text-bad bg-bad-soft", changed: "text-run bg-run-soft" };
// Shorter texts are shown side by side.
const LONG_TEXT = 24;

export function VersionComparison({ chosen, before, numbers, workflows, onCompare, onRestore }: Props) {
  const changes = before
    ? changesBetween(before.steps, chosen.steps)
    : chosen.steps.map((step): StepChange => ({ is: "added", name: step.name, position: step.position }));
  const title = before ? versionTexts.compared(chosen.version, before.version) : editorTexts.version(chosen.version);
  return (
    <section aria-label={title} className="panel grid min-w-0 gap-4 p-4 sm:p-5">
      <div className="flex flex-wrap items-center justify-between gap-3">
        <h2>{title}</h2>
        <div className="flex flex-wrap items-center gap-2">
          {numbers.length > 0 && before && (
            <Select
              label={versionTexts.compareWith}
              className="w-auto!"
              value={String(before.version)}
              choices={numbers.map((each) => ({
                value: String(each),
                label: `${versionTexts.compareWith}: ${editorTexts.version(each)}`,
              }))}
              onChange={(value) => onCompare(Number(value))}
            />
          )}
          {onRestore && (
            <Button size="m" onClick={onRestore}>
              {versionTexts.restore}
            </Button>
          )}
        </div>
      </div>
      {changes.length === 0 && <p className="text-muted">{versionTexts.same}</p>}
      <ul className="grid gap-4">
        {changes.map((change) => {
          const Icon = ICONS[change.is];
          return (
            <li key={`${change.is} ${change.name} ${change.position}`} className="grid gap-2">
              <p className="flex flex-wrap items-center gap-2 font-[550]">
                <span className={`grid size-6 place-items-center rounded-full ${LOOKS[change.is]}`}>
                  <Icon size={14} aria-hidden />
                </span>
                {change.name}
                <span className="text-s font-normal text-muted">
                  {versionTexts[change.is]} · {editorTexts.stepNumber(change.position)}
                </span>
                {change.is === "changed" && change.movedFrom !== null && (
                  <span className="flex items-center gap-1 text-s font-normal text-muted">
                    <MoveVertical size={14} aria-hidden />
                    {versionTexts.moved(change.movedFrom, change.position)}
                  </span>
                )}
              </p>
              {change.is === "changed" && change.fields.length > 0 && (
                <dl className="grid gap-2 border-l-2 pl-4">
                  {change.fields.map((field) => (
                    <Changed key={field.field} change={field} workflows={workflows} />
                  ))}
                </dl>
              )}
            </li>
          );
        })}
      </ul>
    </section>
  );
}

function Changed({ change, workflows }: { change: FieldChange; workflows: readonly StepWorkflow[] }) {
  const { field, before, after } = change;
  const isText =
    typeof before === "string" &&
    typeof after === "string" &&
    Math.max(before.length, after.length) > LONG_TEXT &&
    field !== "effect_id";
  return (
    <div className="grid gap-0.5 text-s sm:grid-cols-[11rem_minmax(0,1fr)] sm:gap-3">
      <dt className="text-muted">
        {versionTexts.fields[field] ?? titled(field.replace(/^(values|payload)\./, "").replaceAll(".", " "))}
      </dt>
      <dd className="min-w-0 break-words">
        {isText ? (
          wordDiff(before, after).map((piece, index) =>
            piece.is === "added" ? (
              <ins key={index} className="rounded-[3px] bg-ok-soft text-ok no-underline">
                {piece.text}
              </ins>
            ) : piece.is === "removed" ? (
              <del key={index} className="rounded-[3px] bg-bad-soft text-bad">
                {piece.text}
              </del>
            ) : (
              <span key={index}>{piece.text}</span>
            ),
          )
        ) : (
          <span className="inline-flex flex-wrap items-center gap-1.5">
            <del className="rounded-[3px] bg-bad-soft px-1 text-bad no-underline">
              {shown(before, field, workflows)}
            </del>
            <ArrowRight size={14} aria-hidden className="text-muted" />
            <ins className="rounded-[3px] bg-ok-soft px-1 text-ok no-underline">{shown(after, field, workflows)}</ins>
          </span>
        )}
      </dd>
    </div>
  );
}

function shown(value: FieldChange["before"], field: string, workflows: readonly StepWorkflow[]): string {
  if (field === "effect_id") return workflows.find((each) => each.effect_id === value)?.name ?? versionTexts.nothing;
  if (field === "top_k" && value == null) return versionTexts.all;
  if (value === undefined || value === null || value === "") return versionTexts.nothing;
  if (typeof value === "boolean") return value ? versionTexts.yes : versionTexts.no;
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
