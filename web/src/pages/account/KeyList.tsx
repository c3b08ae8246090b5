import { useState } from "react";
import type { Schemas } from "@/api/types";
import { Badge, Button, Dialog, Table, Time, type Column } from "@/design";
import { keyTexts } from "@/texts/account";
import { useRevokeKey } from "./useKeys";

type Key = Schemas["Key"];

export function KeyList({ apiKeys }: { apiKeys: readonly Key[] }) {
  const [asked, setAsked] = useState<Key | null>(null);
  const revoke = useRevokeKey(() => setAsked(null));
  const columns: readonly Column<Key>[] = [
    {
      name: keyTexts.name,
      cell: (key) => <span className={`font-[550] break-words ${isOver(key) ? "text-muted" : ""}`}>{key.name}</span>,
    },
    { name: keyTexts.prefix, cell: (key) => <code className="text-muted">{key.prefix}…</code> },
    { name: keyTexts.rights, cell: (key) => <span className="whitespace-nowrap">{key.scopes ? key.scopes.map((scope) => keyTexts.scopeNames[scope] ?? scope).join(", ") : keyTexts.allRights}</span> },
    { name: keyTexts.lastUsed, cell: (key) => (key.last_used_at ? <Time at={key.last_used_at} className="whitespace-nowrap" /> : keyTexts.neverUsed) },
    { name: keyTexts.ends, cell: (key) => <Ends apiKey={key} /> },
    {
      name: keyTexts.revoke,
      head: <span className="sr-only">{keyTexts.revoke}</span>,
      right: true,
      cell: (key) =>
        !key.revoked_at && (
          <Button size="s" look="danger" aria-label={keyTexts.revokeOf(key.name)} onClick={() => setAsked(key)}>
            {keyTexts.revoke}
          </Button>
        ),
    },
  ];
  return (
    <>
      <Table label={keyTexts.list} rows={apiKeys} columns={columns} rowKey={(key) => key.id} />
      <Dialog
        open={asked !== null}
        onOpenChange={(open) => !open && setAsked(null)}
        title={keyTexts.revokeTitle(asked?.name ?? "")}
        text={keyTexts.revokeText}
        actions={
          <>
            <Button onClick={() => setAsked(null)}>{keyTexts.keep}</Button>
            <Button look="danger" busy={revoke.isPending} onClick={() => asked && revoke.mutate(asked.id)}>
              {keyTexts.revoke}
            </Button>
          </>
        }
      />
    </>
  );
}

function Ends({ apiKey }: { apiKey: Key }) {
  if (apiKey.revoked_at) return <Badge tone="plain">{keyTexts.revoked}</Badge>;
  if (isOver(apiKey)) return <Badge tone="warn">{keyTexts.expired}</Badge>;
  return apiKey.expires_at ? <Time at={apiKey.expires_at} className="whitespace-nowrap" /> : <span className="whitespace-nowrap text-muted">{keyTexts.endsNever}</span>;
}

function isOver(key: Key): boolean {
  return Boolean(key.revoked_at) || (key.expires_at != null && Date.parse(key.expires_at) <= Date.now());
}
