import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { api } from "@/api/client";
import { keys } from "@/api/keys";
import { explain, fieldReason } from "@/api/problems";
import { Button, Dialog, Field, Input } from "@/design";
import { notifyDone } from "@/parts/notify";
import { limitTexts as texts } from "@/texts/providers";
import type { ConcurrencyLimit } from "./queries";

/** `limit`: the changed limit; null for a new identifier. */
export function LimitDialog({ limit, onClose }: { limit: ConcurrencyLimit | null; onClose: () => void }) {
  const [identifier, setIdentifier] = useState(limit?.identifier ?? "");
  const [most, setMost] = useState(limit?.max_concurrent == null ? "" : String(limit.max_concurrent));
  const save = useSave(onClose);
  const isWrong = !/^\d{0,9}$/.test(most.trim());
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (!isWrong)
      save.mutate({ identifier: identifier.trim(), max_concurrent: most.trim() === "" ? null : Number(most) });
  };
  const reasons = {
    identifier: fieldReason(save.error, "identifier"),
    most: fieldReason(save.error, "max_concurrent"),
  };
  return (
    <Dialog open onOpenChange={(open) => !open && onClose()} title={texts.dialogTitle}>
      <form onSubmit={submit} className="grid gap-4" noValidate>
        <Field label={texts.identifier} hint={limit ? undefined : texts.identifierHint} error={reasons.identifier}>
          <Input
            value={identifier}
            disabled={limit !== null}
            maxLength={200}
            onChange={(event) => setIdentifier(event.target.value)}
          />
        </Field>
        <Field label={texts.limit} hint={texts.limitHint} error={isWrong ? texts.wrong : reasons.most}>
          <Input
            inputMode="numeric"
            value={most}
            autoFocus={limit !== null}
            onChange={(event) => setMost(event.target.value)}
          />
        </Field>
        {save.error && !reasons.identifier && !reasons.most && (
          <p role="alert" className="text-s text-bad">
            {explain(save.error)}
          </p>
        )}
        <Button type="submit" look="go" busy={save.isPending} disabled={!identifier.trim() || isWrong}>
          {texts.save}
        </Button>
      </form>
    </Dialog>
  );
}

function useSave(onDone: () => void) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (body: { identifier: string; max_concurrent: number | null }) =>
      api.PUT("/api/admin/concurrency-limits", { body }),
    onSuccess: async (_, { identifier }) => {
      void notifyDone(texts.saved(identifier));
      await client.invalidateQueries({ queryKey: keys.concurrencyLimits });
      onDone();
    },
  });
}
