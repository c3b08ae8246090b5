import * as fields from "@/api/fields";
import type { Schemas } from "@/api/types";
import { Button, Dialog, Field, Segments, Select } from "@/design";
import { FormDialog } from "@/parts/form/FormDialog";
import { FormField } from "@/parts/form/FormField";
import { useForm } from "@/parts/form/useForm";
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

export function AddUserDialog({ tenant: given, onClose }: Props) {
  const { me } = useRole();
  const own = me?.role === "tenant_admin" ? me.tenant : undefined;
  const add = useAddUser();
  const form = useForm({
    saved: {
      way: "invitation" as Way,
      tenant: given ?? "",
      email: "",
      name: "",
      role: fields.CreateUserRequest.role.default as Schemas["Role"],
    },
    save: add,
    body: ({ email, name, tenant, ...values }) => ({
      ...values,
      email: email.trim(),
      name: name.trim(),
      tenant: own ?? tenant.trim(),
    }),
  });
  const { way, role } = form.values;
  const tenant = own ?? form.values.tenant.trim();
  if (add.data) return <AddedDialog added={add.data} onClose={onClose} />;
  return (
    <FormDialog
      form={form}
      title={texts.title}
      action={way === "invitation" ? texts.invite : texts.create}
      disabled={!form.values.email.trim() || !tenant}
      onClose={onClose}
    >
      <div className="grid gap-1.5">
        <Segments
          label={texts.how}
          value={way}
          choices={WAYS.map((value) => ({ value, label: texts.ways[value] }))}
          onChange={(chosen) => form.set({ way: chosen })}
          className="justify-self-start"
        />
        <p className="text-s text-muted">{texts.wayHints[way]}</p>
      </div>
      <FormField
        form={form}
        name="email"
        label={texts.email}
        type="email"
        autoComplete="off"
        maxLength={254}
        autoFocus
      />
      {way === "password" && (
        <FormField form={form} name="name" label={texts.name} autoComplete="off" maxLength={200} />
      )}
      {!own && !given && (
        <TenantField
          value={form.values.tenant}
          onChange={(slug) => form.set({ tenant: slug })}
          error={form.reasonOf("tenant")}
        />
      )}
      <Field label={texts.role} hint={roleHints[role]} error={form.reasonOf("role")}>
        <Select
          value={role}
          choices={rolesOf(me?.role).map((value) => ({ value, label: roleTexts[value] }))}
          onChange={(chosen) => form.set({ role: chosen })}
        />
      </Field>
    </FormDialog>
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
    <Dialog onClose={onClose} title={title} text={text} actions={<Button onClick={onClose}>{commonTexts.done}</Button>}>
      {added.password && <OneTimeText label={texts.password} text={added.password} />}
      {added.link && <OneTimeText label={texts.link} text={added.link} />}
    </Dialog>
  );
}
