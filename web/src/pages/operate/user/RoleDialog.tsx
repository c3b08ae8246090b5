import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import { explain } from "@/api/problems";
import type { Schemas } from "@/api/types";
import { Button, Dialog, Field, Select } from "@/design";
import { notifyDone } from "@/parts/notify";
import { useRole } from "@/parts/useRole";
import { rolesOf } from "@/parts/user/roles";
import { roleHints, roleTexts, userTexts as texts } from "@/texts/users";

export function RoleDialog({ user, onClose }: { user: Schemas["User"]; onClose: () => void }) {
  const { me } = useRole();
  const [role, setRole] = useState(user.role);
  const client = useQueryClient();
  const change = useMutation({
    mutationFn: () =>
      data(api.PUT("/api/admin/users/{user_id}/role", { params: { path: { user_id: user.id } }, body: { role } })),
    onSuccess: async () => {
      void notifyDone(texts.roleChanged(user.email, roleTexts[role]));
      await client.invalidateQueries({ queryKey: keys.allUsers });
      onClose();
    },
  });
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={texts.roleTitle(user.email)}
      text={texts.roleText}
      actions={
        <>
          <Button onClick={onClose}>{texts.keep}</Button>
          <Button look="go" busy={change.isPending} disabled={role === user.role} onClick={() => change.mutate()}>
            {texts.changeRole}
          </Button>
        </>
      }
    >
      <Field label={texts.newRole} hint={roleHints[role]} error={change.error ? explain(change.error) : null}>
        <Select
          value={role}
          choices={rolesOf(me?.role).map((value) => ({ value, label: roleTexts[value] }))}
          onChange={setRole}
        />
      </Field>
    </Dialog>
  );
}
