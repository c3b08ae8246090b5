import { useInfiniteQuery } from "@tanstack/react-query";
import { api } from "@/api/client";
import { keys } from "@/api/keys";
import { useRole } from "@/parts/useRole";
import { KeyTable } from "@/parts/user/KeyTable";
import { userKeysTexts as texts } from "@/texts/users";
import { userKeysQuery } from "./queries";

export function UserKeys({ id }: { id: string }) {
  const { mayManageUsers } = useRole();
  const query = useInfiniteQuery(userKeysQuery(id));
  return (
    <KeyTable
      query={query}
      none={{ title: texts.none, text: texts.noneText }}
      mayRevoke={mayManageUsers}
      revoke={(key) =>
        api.DELETE("/api/admin/users/{user_id}/keys/{key_id}", { params: { path: { user_id: id, key_id: key } } })
      }
      changes={keys.userKeys(id)}
    />
  );
}
