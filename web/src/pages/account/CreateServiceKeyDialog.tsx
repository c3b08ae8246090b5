import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Me, Schemas } from "@/api/types";
import { Button, Dialog, Field, Select } from "@/design";
import { FormDialog } from "@/parts/form/FormDialog";
import { FormField } from "@/parts/form/FormField";
import { useForm } from "@/parts/form/useForm";
import { useSave } from "@/parts/useAction";
import { keyTexts, serviceKeyTexts as texts } from "@/texts/account";
import { EXPIRIES, type Expiry, endOf } from "./CreateKeyDialog";
import { NewKey } from "./NewKey";
import { ScopeChoice } from "./ScopeChoice";

const OF_ADMIN: readonly Schemas["ServiceScope"][] = ["read", "submit_for_users"];

export function CreateServiceKeyDialog({ me, onClose }: { me: Me; onClose: () => void }) {
  const create = useSave({
    mutationFn: (body: Schemas["CreateServiceKey"]) =>
      data(
        api.POST("/api/admin/tenants/{tenant_id}/service-keys", {
          params: { path: { tenant_id: me.tenant_id } },
          body,
        }),
      ),
    changes: [keys.serviceKeys(me.tenant_id)],
    // The response contains the key itself, so the cache drops it when the dialog closes.
    gcTime: 0,
  });
  const form = useForm({
    saved: { name: "", scopes: OF_ADMIN, expiry: "never" as Expiry },
    save: create,
    body: ({ name, scopes, expiry }) => ({ name: name.trim(), scopes: [...scopes], expires_at: endOf(expiry) }),
  });
  const { name, scopes, expiry } = form.values;
  if (create.data) {
    return (
      <Dialog
        onClose={onClose}
        title={texts.created}
        text={keyTexts.createdText}
        wide
        actions={<Button onClick={onClose}>{keyTexts.done}</Button>}
      >
        <NewKey apiKey={create.data.key} path="/api/tenant/jobs" />
      </Dialog>
    );
  }
  return (
    <FormDialog
      form={form}
      title={texts.createTitle}
      action={texts.create}
      disabled={!name.trim() || scopes.length === 0}
      onClose={onClose}
    >
      <FormField form={form} name="name" label={keyTexts.name} hint={texts.nameHint} maxLength={200} autoFocus />
      <ScopeChoice
        scopes={me.role === "operator" ? [...OF_ADMIN, "credit"] : OF_ADMIN}
        hints={texts.scopeHints}
        value={scopes}
        onChange={(chosen) => form.set({ scopes: chosen })}
        error={form.reasonOf("scopes")}
      />
      <Field label={keyTexts.expires}>
        <Select value={expiry} choices={EXPIRIES} onChange={(chosen) => form.set({ expiry: chosen })} />
      </Field>
    </FormDialog>
  );
}
