import { Button, Dialog, Field, Select } from "@/design";
import { FormDialog } from "@/parts/form/FormDialog";
import { FormField } from "@/parts/form/FormField";
import { useForm } from "@/parts/form/useForm";
import { useSave } from "@/parts/useAction";
import { keyTexts } from "@/texts/account";
import { NewKey } from "./NewKey";
import { ScopeChoice } from "./ScopeChoice";

type Expiry = keyof typeof keyTexts.expiries;
const EXPIRIES = Object.entries(keyTexts.expiries).map(([value, label]) => ({ value: value as Expiry, label }));
const DAY_MS = 86_400_000;

/** When a key with this expiry stops working. */
function endOf(expiry: Expiry): string | null {
  return expiry === "never" ? null : new Date(Date.now() + Number(expiry) * DAY_MS).toISOString();
}

/** Creates an API key of the user, or a service key of the tenant, and shows it once. */
export function CreateKeyDialog<Scope extends string>({
  texts,
  scopes: offered,
  chosen,
  expiry: usual,
  create: request,
  changes,
  path,
  onClose,
}: {
  texts: Pick<typeof keyTexts, "create" | "createTitle" | "created" | "nameHint" | "scopeHints">;
  scopes: readonly Scope[];
  chosen: readonly Scope[];
  expiry: Expiry;
  create: (body: { name: string; scopes: Scope[]; expires_at: string | null }) => Promise<{ key: string }>;
  changes: readonly unknown[];
  /** A route that the key may use, for the example. */
  path?: string;
  onClose: () => void;
}) {
  // The response contains the key itself, so the cache drops it when the dialog closes.
  const create = useSave({ mutationFn: request, changes: [changes], gcTime: 0 });
  const form = useForm({
    saved: { name: "", scopes: chosen, expiry: usual },
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
        <NewKey apiKey={create.data.key} path={path} />
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
        scopes={offered}
        hints={texts.scopeHints}
        value={scopes}
        onChange={(next) => form.set({ scopes: next })}
        error={form.reasonOf("scopes")}
      />
      <Field label={keyTexts.expires}>
        <Select value={expiry} choices={EXPIRIES} onChange={(next) => form.set({ expiry: next })} />
      </Field>
    </FormDialog>
  );
}
