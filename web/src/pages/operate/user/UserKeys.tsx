import { useInfiniteQuery, useMutation, useQueryClient } from "@tanstack/react-query";
import { KeyRound } from "lucide-react";
import { useState } from "react";
import { api } from "@/api/client";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import { Badge, Button, type Column, Dialog, Empty, Time } from "@/design";
import { notify, notifyError } from "@/parts/notify";
import { PagedTable } from "@/parts/PagedTable";
import { useRole } from "@/parts/useRole";
import { keyTexts } from "@/texts/account";
import { userKeysTexts as texts } from "@/texts/users";
import { userKeysQuery } from "./queries";

type Key = Schemas["Key"];

const COLUMNS: readonly Column<Key>[] = [
  {
    name: keyTexts.name,
    cell: (key) => (
      <>
        <span className="font-[550] [overflow-wrap:anywhere]">{key.name}</span>
        <code className="block text-muted">{key.prefix}…</code>
      </>
    ),
  },
  {
    name: keyTexts.rights,
    className: "max-lg:hidden",
    cell: (key) =>
      key.scopes ? key.scopes.map((scope) => keyTexts.scopeNames[scope] ?? scope).join(", ") : keyTexts.allRights,
  },
  {
    name: keyTexts.lastUsed,
    className: "max-sm:hidden",
    cell: (key) =>
      key.last_used_at ? <Time at={key.last_used_at} className="whitespace-nowrap" /> : keyTexts.neverUsed,
  },
  {
    name: keyTexts.ends,
    cell: (key) =>
      key.revoked_at ? (
        <Badge>{keyTexts.revoked}</Badge>
      ) : key.expires_at ? (
        <Time at={key.expires_at} className="whitespace-nowrap" />
      ) : (
        <span className="whitespace-nowrap text-muted">{keyTexts.endsNever}</span>
      ),
  },
];

export function UserKeys({ id }: { id: string }) {
  const [confirming, setConfirming] = useState<Key | null>(null);
  const { mayManageUsers } = useRole();
  const query = useInfiniteQuery(userKeysQuery(id));
  const revoke = useRevoke(id, () => setConfirming(null));
  const menu: Column<Key> = {
    name: keyTexts.revoke,
    head: <span className="sr-only">{keyTexts.revoke}</span>,
    right: true,
    cell: (key) =>
      !key.revoked_at && (
        <Button size="s" look="danger" aria-label={keyTexts.revokeOf(key.name)} onClick={() => setConfirming(key)}>
          {keyTexts.revoke}
        </Button>
      ),
  };
  return (
    <>
      <PagedTable
        query={query}
        columns={mayManageUsers ? [...COLUMNS, menu] : COLUMNS}
        rowKey={(key) => key.id}
        label={texts.list}
        empty={<Empty icon={<KeyRound size={20} />} title={texts.none} text={texts.noneText} />}
      />
      <Dialog
        open={confirming !== null}
        onOpenChange={(open) => !open && setConfirming(null)}
        title={keyTexts.revokeTitle(confirming?.name ?? "")}
        text={keyTexts.revokeText}
        actions={
          <>
            <Button onClick={() => setConfirming(null)}>{texts.keep}</Button>
            <Button look="danger" busy={revoke.isPending} onClick={() => confirming && revoke.mutate(confirming.id)}>
              {keyTexts.revoke}
            </Button>
          </>
        }
      />
    </>
  );
}

function useRevoke(userId: string, onDone: () => void) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (id: string) =>
      api.DELETE("/api/admin/users/{user_id}/keys/{key_id}", { params: { path: { user_id: userId, key_id: id } } }),
    onSuccess: () => notify(keyTexts.wasRevoked),
    onError: (error) => notifyError(error),
    onSettled: async () => {
      await client.invalidateQueries({ queryKey: keys.userKeys(userId) });
      onDone();
    },
  });
}
