import { useState } from "react";
import type { Schemas } from "@/api/types";
import { Badge, Button, type Column, Dialog, Table, Time } from "@/design";
import { keyTexts } from "@/texts/account";
import { useRevokeKey } from "./useKeys";

type Key = Schemas["Key"];
// A phone shows these values in the first column.
const WIDE = "max-md:hidden";
// A tablet has less room, because the navigation is beside the list.
const WIDEST = "max-lg:hidden";

export function KeyList({ apiKeys }: { apiKeys: readonly Key[] }) {
  const [confirming, setConfirming] = useState<Key | null>(null);
  const revoke = useRevokeKey(() => setConfirming(null));
  const columns: readonly Column<Key>[] = [
    {
      name: keyTexts.name,
      className: "max-lg:w-full",
      cell: (key) => (
        <>
          <span className={`font-[550] [overflow-wrap:anywhere] ${isOver(key) ? "text-muted" : ""}`}>{key.name}</span>
          <span className="block text-muted md:hidden">{rightsOf(key)}</span>
          <span className="block text-muted md:hidden">
            <Ends apiKey={key} isSentence />
          </span>
        </>
      ),
    },
    { name: keyTexts.prefix, className: WIDEST, cell: (key) => <code className="text-muted">{key.prefix}…</code> },
    {
      name: keyTexts.rights,
      className: WIDE,
      cell: (key) => <span className="whitespace-nowrap">{rightsOf(key)}</span>,
    },
    {
      name: keyTexts.lastUsed,
      className: WIDEST,
      cell: (key) =>
        key.last_used_at ? <Time at={key.last_used_at} className="whitespace-nowrap" /> : keyTexts.neverUsed,
    },
    { name: keyTexts.ends, className: WIDE, cell: (key) => <Ends apiKey={key} /> },
    {
      name: keyTexts.revoke,
      head: <span className="sr-only">{keyTexts.revoke}</span>,
      right: true,
      cell: (key) =>
        !key.revoked_at && (
          <Button size="s" look="danger" aria-label={keyTexts.revokeOf(key.name)} onClick={() => setConfirming(key)}>
            {keyTexts.revoke}
          </Button>
        ),
    },
  ];
  return (
    <>
      <Table label={keyTexts.list} rows={apiKeys} columns={columns} rowKey={(key) => key.id} />
      <Dialog
        open={confirming !== null}
        onOpenChange={(open) => !open && setConfirming(null)}
        title={keyTexts.revokeTitle(confirming?.name ?? "")}
        text={keyTexts.revokeText}
        actions={
          <>
            <Button onClick={() => setConfirming(null)}>{keyTexts.keep}</Button>
            <Button look="danger" busy={revoke.isPending} onClick={() => confirming && revoke.mutate(confirming.id)}>
              {keyTexts.revoke}
            </Button>
          </>
        }
      />
    </>
  );
}

function Ends({ apiKey, isSentence = false }: { apiKey: Key; isSentence?: boolean }) {
  if (apiKey.revoked_at) return <Badge tone="plain">{keyTexts.revoked}</Badge>;
  if (isOver(apiKey)) return <Badge tone="warn">{keyTexts.expired}</Badge>;
  return (
    <span className={`whitespace-nowrap ${apiKey.expires_at ? "" : "text-muted"}`}>
      {isSentence && `${keyTexts.ends} `}
      {apiKey.expires_at ? (
        <Time at={apiKey.expires_at} />
      ) : isSentence ? (
        keyTexts.endsNever.toLowerCase()
      ) : (
        keyTexts.endsNever
      )}
    </span>
  );
}

function rightsOf(key: Key): string {
  return key.scopes ? key.scopes.map((scope) => keyTexts.scopeNames[scope] ?? scope).join(", ") : keyTexts.allRights;
}

function isOver(key: Key): boolean {
  return Boolean(key.revoked_at) || (key.expires_at != null && Date.parse(key.expires_at) <= Date.now());
}
