import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { explain, fieldReason } from "@/api/problems";
import { meQuery } from "@/api/queries";
import type { Schemas } from "@/api/types";
import { Button, Dialog, Field, Input, Select } from "@/design";
import { keyTexts } from "@/texts/account";
import { NewKey } from "./NewKey";
import { ScopeChoice } from "./ScopeChoice";
import { useCreateKey } from "./useKeys";

type Scope = Schemas["KeyScope"];
type Expiry = keyof typeof keyTexts.expiries;
const EXPIRIES = Object.entries(keyTexts.expiries).map(([value, label]) => ({ value: value as Expiry, label }));
const DAY_MS = 86_400_000;

export function CreateKeyDialog({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState<readonly Scope[]>(["read", "submit"]);
  const [expiry, setExpiry] = useState<Expiry>("90");
  const me = useQuery(meQuery);
  const create = useCreateKey();
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const expires_at = expiry === "never" ? null : new Date(Date.now() + Number(expiry) * DAY_MS).toISOString();
    create.mutate({ name: name.trim(), scopes: [...scopes], expires_at });
  };
  if (create.data) {
    return (
      <Dialog
        open
        onOpenChange={(open) => !open && onClose()}
        title={keyTexts.created}
        text={keyTexts.createdText}
        wide
        actions={<Button onClick={onClose}>{keyTexts.done}</Button>}
      >
        <NewKey apiKey={create.data.key} />
      </Dialog>
    );
  }
  const nameReason = fieldReason(create.error, "name");
  return (
    <Dialog open onOpenChange={(open) => !open && onClose()} title={keyTexts.createTitle}>
      <form onSubmit={submit} className="grid gap-4" noValidate>
        <Field label={keyTexts.name} hint={keyTexts.nameHint} error={nameReason}>
          <Input value={name} maxLength={200} autoFocus onChange={(event) => setName(event.target.value)} />
        </Field>
        <ScopeChoice
          value={scopes}
          onChange={setScopes}
          canAdminister={me.data !== undefined && me.data.role !== "user"}
        />
        <Field label={keyTexts.expires}>
          <Select value={expiry} choices={EXPIRIES} onChange={setExpiry} />
        </Field>
        {create.error && !nameReason && (
          <p role="alert" className="text-s text-bad">
            {explain(create.error)}
          </p>
        )}
        <Button type="submit" look="go" busy={create.isPending} disabled={!name.trim() || scopes.length === 0}>
          {keyTexts.create}
        </Button>
      </form>
    </Dialog>
  );
}
