import { fieldReason } from "@/api/problems";
import { Field, Select, Textarea } from "@/design";
import { BooleanField } from "@/parts/form/BooleanField";
import { FormField } from "@/parts/form/FormField";
import { NumberInput } from "@/parts/workflow/NumberInput";
import { workflowsTexts } from "@/texts/workflows";
import { FleetsPanel } from "./FleetsPanel";
import type { EditorProps } from "./WorkflowPage";

const texts = workflowsTexts.settings;

export function SettingsTab({ workflow, editing: { draft, change }, mayChange, refused }: EditorProps) {
  const set = (values: Partial<typeof draft>) => change((now) => ({ ...now, ...values }));
  const form = { values: draft, set, reasonOf: (field: string) => fieldReason(refused, field) };
  const text = { form, autoComplete: "off" };
  const number = (name: "run_limit_seconds" | "lease_seconds" | "max_attempts", label: string, hint?: string) => (
    <Field label={label} hint={hint} error={form.reasonOf(name)}>
      <NumberInput
        value={draft[name] ?? null}
        onChange={(value) => set({ [name]: value === null ? null : Number(value) })}
      />
    </Field>
  );
  return (
    <div className="grid items-start gap-6 lg:grid-cols-[minmax(0,1fr)_minmax(20rem,26rem)]">
      <fieldset disabled={!mayChange} className="panel grid min-w-0 gap-5 p-4 sm:p-5">
        <legend className="sr-only">{texts.title}</legend>
        <FormField {...text} name="name" label={workflowsTexts.name} required maxLength={200} />
        <Field label={texts.description} error={form.reasonOf("description")}>
          <Textarea
            rows={2}
            value={draft.description}
            maxLength={2000}
            onChange={(event) => set({ description: event.target.value })}
          />
        </Field>
        <div className="grid items-start gap-5 sm:grid-cols-2">
          <FormField {...text} name="output_extension" label={texts.extension} spellCheck={false} />
          <FormField {...text} name="output_mime_type" label={texts.mimeType} spellCheck={false} />
          {number("run_limit_seconds", texts.runLimit)}
          {number("max_attempts", texts.attempts, texts.attemptsHint)}
          {number("lease_seconds", texts.lease, texts.leaseHint)}
          <Field label={texts.refund} error={form.reasonOf("refund_on_cancel")}>
            <Select
              value={draft.refund_on_cancel}
              disabled={!mayChange}
              choices={(["all", "unspent"] as const).map((value) => ({ value, label: texts.refunds[value] }))}
              onChange={(refund_on_cancel) => set({ refund_on_cancel })}
            />
          </Field>
        </div>
        <BooleanField
          label={texts.keepMetadata}
          hint={texts.keepMetadataHint}
          value={draft.keep_metadata}
          disabled={!mayChange}
          onChange={(keep_metadata) => set({ keep_metadata })}
        />
      </fieldset>
      <FleetsPanel slug={workflow.slug} mayChange={mayChange} />
    </div>
  );
}
