import { type FormEvent, useState } from "react";
import { explain, fieldReason } from "@/api/problems";
import type { Schemas } from "@/api/types";
import { Button, Dialog, Field, Input, Segments, Select } from "@/design";
import { OneTimeText } from "@/parts/OneTimeText";
import { useRole } from "@/parts/useRole";
import { commonTexts } from "@/texts/common";
import { roleHints, roleTexts, addUserTexts as texts } from "@/texts/users";
import { rolesOf } from "./roles";
import { TenantField } from "./TenantField";
import { type Added, useAddUser, type Way } from "./useAddUser";

const WAYS: readonly Way[] = ["invitation", "password"];

interface Props {
  /** Slug of the tenant. Without it the dialog asks for one. */
  tenant?: string;
  onClose: () => void;
}

export function AddUserDialog({ tenant, onClose }: Props) {
  const { me } = useRole();
  const [way, setWay] = useState<Way>("invitation");
  const [slug, setSlug] = useState(tenant ?? "");
  const [email, setEmail] = useState("");
  const [name, setName] = useState("");
  const [role, setRole] = useState<Schemas["Role"]>("user");
  const add = useAddUser();
  const own = me?.role === "tenant_admin" ? me.tenant : undefined;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    add.mutate({ way, tenant: own ?? slug.trim(), email: email.trim(), name: name.trim(), role });
  };
  if (add.data) return <AddedDialog added={add.data} onClose={onClose} />;
  const reasons = {
    tenant: fieldReason(add.error, "tenant"),
    email: fieldReason(add.error, "email"),
    name: fieldReason(add.error, "name"),
  };
  return (
    <Dialog open onOpenChange={(open) => !open && onClose()} title={texts.title}>
      <form onSubmit={submit} className="grid gap-4" noValidate>
        <div className="grid gap-1.5">
          <Segments
            label={texts.how}
            value={way}
            choices={WAYS.map((value) => ({ value, label: texts.ways[value] }))}
            onChange={setWay}
            className="justify-self-start"
          />
          <p className="text-s text-muted">{texts.wayHints[way]}</p>
        </div>
        <Field label={texts.email} error={reasons.email}>
          <Input
            type="email"
            autoComplete="off"
            value={email}
            maxLength={254}
            autoFocus
            onChange={(event) => setEmail(event.target.value)}
          />
        </Field>
        {way === "password" && (
          <Field label={texts.name} error={reasons.name}>
            <Input value={name} autoComplete="off" maxLength={200} onChange={(event) => setName(event.target.value)} />
          </Field>
        )}
        {!own && !tenant && <TenantField value={slug} onChange={setSlug} error={reasons.tenant} />}
        <Field label={texts.role} hint={roleHints[role]}>
          <Select
            value={role}
            choices={rolesOf(me?.role).map((value) => ({ value, label: roleTexts[value] }))}
            onChange={setRole}
          />
        </Field>
        {add.error && !Object.values(reasons).some(Boolean) && (
          <p role="alert" className="text-s text-bad">
            {explain(add.error)}
          </p>
        )}
        <Button type="submit" look="go" busy={add.isPending} disabled={!email.trim() || !(own ?? slug.trim())}>
          {way === "invitation" ? texts.invite : texts.create}
        </Button>
      </form>
    </Dialog>
  );
}

/** Shows the link or password that the new user needs, once. */
function AddedDialog({ added, onClose }: { added: Added; onClose: () => void }) {
  const [title, text] = added.password
    ? [texts.createdTitle, texts.createdText(added.email)]
    : added.link
      ? [texts.linkTitle, texts.linkText(added.email)]
      : [texts.invited, texts.invitedText(added.email)];
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={title}
      text={text}
      actions={<Button onClick={onClose}>{commonTexts.done}</Button>}
    >
      {added.password && <OneTimeText label={texts.password} text={added.password} />}
      {added.link && <OneTimeText label={texts.link} text={added.link} />}
    </Dialog>
  );
}
