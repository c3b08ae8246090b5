import { useQuery } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import { meQuery } from "@/api/queries";
import type { Schemas } from "@/api/types";
import { Button, Dialog, Field, Select } from "@/design";
import { FormDialog } from "@/parts/form/FormDialog";
import { FormField } from "@/parts/form/FormField";
import { useForm } from "@/parts/form/useForm";
import { useSave } from "@/parts/useAction";
import { keyTexts } from "@/texts/account";
import { NewKey } from "./NewKey";
import { ScopeChoice } from "./ScopeChoice";

export type Expiry = keyof typeof keyTexts.expiries;
const OF_USER: readonly Schemas["KeyScope"][] = ["read", "submit"];
export const EXPIRIES = Object.entries(keyTexts.expiries).map(([value, label]) => ({ value: value as Expiry, label }));
const DAY_MS = 86_400_000;

/** When a key with this expiry stops working. */
export function endOf(expiry: Expiry): string | null {
  return expiry === "never" ? null : new Date(Date.now() + Number(expiry) * DAY_MS).toISOString();
}

export function CreateKeyDialog({ onClose }: { onClose: () => void }) {
  const me = useQuery(meQuery);
  const create = useSave({
    mutationFn: (body: Schemas["CreateKeyRequest"]) => data(api.POST("/api/keys", { body })),
    changes: [keys.apiKeys],
    // The response contains the key itself, so the cache drops it when the dialog closes.
    gcTime: 0,
  });
  const form = useForm({
    saved: { name: "", scopes: OF_USER, expiry: "90" as Expiry },
    save: create,
    body: ({ name, scopes, expiry }) => ({
      name: name.trim(),
      scopes: [...scopes],
      expires_at: endOf(expiry),
    }),
  });
  const { name, scopes, expiry } = form.values;
  if (create.data) {
    return (
      <Dialog
        onClose={onClose}
        title={keyTexts.created}
        text={keyTexts.createdText}
        wide
        actions={<Button onClick={onClose}>{keyTexts.done}</Button>}
      >
        <NewKey apiKey={create.data.key} />
      </Dialog>
    );
  }
  return (
    <FormDialog
      form={form}
      title={keyTexts.createTitle}
      action={keyTexts.create}
      disabled={!name.trim() || scopes.length === 0}
      onClose={onClose}
    >
      <FormField form={form} name="name" label={keyTexts.name} hint={keyTexts.nameHint} maxLength={200} autoFocus />
      <ScopeChoice
        scopes={me.data === undefined || me.data.role === "user" ? OF_USER : [...OF_USER, "admin"]}
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
