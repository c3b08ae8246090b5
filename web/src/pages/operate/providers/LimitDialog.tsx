import { api } from "@/api/client";
import { keys } from "@/api/keys";
import { wholeNumber } from "@/parts/fleet/fleet-changes";
import { FormDialog } from "@/parts/form/FormDialog";
import { FormField } from "@/parts/form/FormField";
import { useForm } from "@/parts/form/useForm";
import { notifyDone } from "@/parts/notify";
import { useSave } from "@/parts/useAction";
import { limitTexts as texts } from "@/texts/providers";
import type { ConcurrencyLimit } from "./queries";

/** `limit`: the changed limit; null for a new identifier. */
export function LimitDialog({ limit, onClose }: { limit: ConcurrencyLimit | null; onClose: () => void }) {
  const form = useForm({
    saved: {
      identifier: limit?.identifier ?? "",
      max_concurrent: limit?.max_concurrent == null ? "" : String(limit.max_concurrent),
    },
    save: useSave({
      mutationFn: (body: { identifier: string; max_concurrent: number | null }) =>
        api.PUT("/api/admin/concurrency-limits", { body }),
      changes: [keys.concurrencyLimits],
      onSuccess: (_, { identifier }) => notifyDone(texts.saved(identifier)),
      onDone: onClose,
    }),
    body: ({ identifier, max_concurrent }) => ({
      identifier: identifier.trim(),
      max_concurrent: wholeNumber(max_concurrent) ?? null,
    }),
    check: ({ max_concurrent }) => ({ max_concurrent: wholeNumber(max_concurrent) === undefined && texts.wrong }),
  });
  return (
    <FormDialog
      form={form}
      title={texts.dialogTitle}
      action={texts.save}
      disabled={!form.values.identifier.trim() || !form.isValid}
      onClose={onClose}
    >
      <FormField
        form={form}
        name="identifier"
        label={texts.identifier}
        hint={limit ? undefined : texts.identifierHint}
        disabled={limit !== null}
        maxLength={200}
      />
      <FormField
        form={form}
        name="max_concurrent"
        label={texts.limit}
        hint={texts.limitHint}
        inputMode="numeric"
        autoFocus={limit !== null}
      />
    </FormDialog>
  );
}
