import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import { Field, Select } from "@/design";
import { FormDialog } from "@/parts/form/FormDialog";
import { useForm } from "@/parts/form/useForm";
import { notifyDone } from "@/parts/notify";
import { useSave } from "@/parts/useAction";
import { useRole } from "@/parts/useRole";
import { rolesOf } from "@/parts/user/roles";
import { roleHints, roleTexts, userTexts as texts } from "@/texts/users";

export function RoleDialog({ user, onClose }: { user: Schemas["User"]; onClose: () => void }) {
  const { me } = useRole();
  const form = useForm({
    saved: { role: user.role },
    save: useSave({
      mutationFn: (body: { role: Schemas["Role"] }) =>
        data(api.PUT("/api/admin/users/{user_id}/role", { params: { path: { user_id: user.id } }, body })),
      changes: [keys.allUsers],
      onSuccess: (_, { role }) => notifyDone(texts.roleChanged(user.email, roleTexts[role])),
      onDone: onClose,
    }),
    body: (values) => values,
  });
  const { role } = form.values;
  return (
    <FormDialog
      form={form}
      title={texts.roleTitle(user.email)}
      text={texts.roleText}
      action={texts.changeRole}
      cancel={texts.keep}
      disabled={!form.isChanged}
      onClose={onClose}
    >
      <Field label={texts.newRole} hint={roleHints[role]} error={form.reasonOf("role")}>
        <Select
          value={role}
          choices={rolesOf(me?.role).map((value) => ({ value, label: roleTexts[value] }))}
          onChange={(chosen) => form.set({ role: chosen })}
        />
      </Field>
    </FormDialog>
  );
}
