import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import { Checkbox } from "@/design";
import { FormDialog } from "@/parts/form/FormDialog";
import { FormField } from "@/parts/form/FormField";
import { useForm } from "@/parts/form/useForm";
import { notifyDone } from "@/parts/notify";
import { useSave } from "@/parts/useAction";
import { webhookTexts as texts } from "@/texts/webhooks";

const HOUR_MS = 3_600_000;

/** Asks for a time range and sends its events again. */
export function ReplayDialog({ endpointId, onClose }: { endpointId: string; onClose: () => void }) {
  const replay = useSave({
    mutationFn: (body: Schemas["ReplayRange"]) =>
      data(
        api.POST("/api/webhook-endpoints/{endpoint_id}/replay", {
          params: { path: { endpoint_id: endpointId } },
          body,
        }),
      ),
    changes: [keys.webhookDeliveries(endpointId)],
    onDone: ({ deliveries, has_more }) => {
      void notifyDone(has_more ? texts.replayedMore(deliveries) : texts.replayed(deliveries));
      onClose();
    },
  });
  const form = useForm({
    saved: { since: local(new Date(Date.now() - HOUR_MS)), until: "", only_failed: false },
    save: replay,
    body: ({ since, until, only_failed }) => ({
      since: new Date(since).toISOString(),
      until: until ? new Date(until).toISOString() : null,
      only_failed,
    }),
  });
  return (
    <FormDialog
      form={form}
      title={texts.replayTitle}
      text={texts.replayText}
      action={texts.replayAction}
      disabled={!form.values.since}
      onClose={onClose}
    >
      <FormField form={form} name="since" label={texts.since} type="datetime-local" required />
      <FormField form={form} name="until" label={texts.until} hint={texts.untilHint} type="datetime-local" />
      <label className="flex min-h-11 cursor-pointer items-center gap-3">
        <Checkbox
          checked={form.values.only_failed}
          onChange={({ target }) => form.set({ only_failed: target.checked })}
        />
        {texts.onlyFailed}
      </label>
    </FormDialog>
  );
}

/** A time as a field for dates and times takes it: in the zone of the reader. */
function local(time: Date): string {
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
