import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import { Field, Select } from "@/design";
import { FormDialog } from "@/parts/form/FormDialog";
import { FormField } from "@/parts/form/FormField";
import { useForm } from "@/parts/form/useForm";
import { useSave } from "@/parts/useAction";
import { useRole } from "@/parts/useRole";
import { webhookTexts as texts } from "@/texts/webhooks";
import { EventChoice } from "./EventChoice";
import { SecretDialog } from "./SecretDialog";

type Scope = Schemas["EndpointScope"];
const ENDS: readonly Schemas["WebhookEvent"][] = ["job.completed", "job.failed", "job.canceled", "job.expired"];

export function CreateEndpointDialog({ onClose }: { onClose: () => void }) {
  const { mayManageUsers } = useRole();
  const create = useSave({
    mutationFn: (body: Schemas["CreateWebhookEndpoint"]) => data(api.POST("/api/webhook-endpoints", { body })),
    changes: [keys.webhookEndpoints],
    // The response contains the secret, so the cache drops it when the dialog closes.
    gcTime: 0,
  });
  const form = useForm({
    saved: {
      url: "",
      description: "",
      events: ENDS,
      scope: "user" as Scope,
      client_references: "",
      low_balance: "100",
    },
    save: create,
    body: (values) => ({
      url: values.url.trim(),
      description: values.description.trim(),
      events: [...values.events],
      scope: values.scope,
      client_references: values.client_references
        .split(",")
        .map((each) => each.trim())
        .filter(Boolean),
      effect_ids: [],
      low_balance: Number(values.low_balance),
    }),
  });
  if (create.data) {
    return <SecretDialog title={texts.created} text={texts.secretText} secret={create.data.secret} onClose={onClose} />;
  }
  const { events, scope } = form.values;
  const scopes = (Object.keys(texts.scopes) as Scope[])
    .filter((each) => each !== "tenant" || mayManageUsers)
    .map((value) => ({ value, label: texts.scopes[value] }));
  return (
    <FormDialog
      form={form}
      wide
      title={texts.createTitle}
      action={texts.create}
      disabled={!form.values.url.trim() || events.length === 0}
      onClose={onClose}
    >
      <FormField form={form} name="url" label={texts.url} hint={texts.urlHint} maxLength={2000} type="url" autoFocus />
      <EventChoice value={events} onChange={(chosen) => form.set({ events: chosen })} error={form.reasonOf("events")} />
      {events.includes("wallet.low") && (
        <FormField
          form={form}
          name="low_balance"
          label={texts.lowBalance}
          hint={texts.lowBalanceHint}
          type="number"
          min={1}
        />
      )}
      <Field label={texts.scope} hint={texts.scopeOf[scope]}>
        <Select value={scope} choices={scopes} onChange={(chosen) => form.set({ scope: chosen })} />
      </Field>
      <FormField form={form} name="client_references" label={texts.references} hint={texts.referencesHint} />
      <FormField form={form} name="description" label={texts.description} maxLength={200} />
    </FormDialog>
  );
}
