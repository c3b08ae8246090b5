import type { InfiniteData, QueryKey, UseInfiniteQueryResult } from "@tanstack/react-query";
import { KeyRound } from "lucide-react";
import { type ReactNode, useState } from "react";
import type { Schemas } from "@/api/types";
import { Badge, Button, type Column, Empty, Time } from "@/design";
import { ConfirmDialog } from "@/parts/ConfirmDialog";
import { notify } from "@/parts/notify";
import { PagedTable } from "@/parts/PagedTable";
import { useAction } from "@/parts/useAction";
import { keyTexts as texts } from "@/texts/account";

type Key = Schemas["Key"] | Schemas["ServiceKey"];
// A phone shows these values in the first column.
const WIDE = "max-md:hidden";
// A tablet has less room, because the navigation is beside the list.
const WIDEST = "max-lg:hidden";

interface Props {
  query: UseInfiniteQueryResult<InfiniteData<{ items: Key[] }>>;
  /** The user has no key yet. */
  none: { title: string; text: string; action?: ReactNode };
  mayRevoke: boolean;
  label?: string;
  revoke: (id: string) => Promise<unknown>;
  changes: QueryKey;
}

/** API keys of one user, or service keys of a tenant. */
export function KeyTable({ query, none, mayRevoke, label = texts.list, revoke: request, changes }: Props) {
  const [confirming, setConfirming] = useState<Key | null>(null);
  const revoke = useAction({
    mutationFn: request,
    changes: [changes],
    onSuccess: () => notify(texts.wasRevoked),
    onEnd: () => setConfirming(null),
  });
  return (
    <>
      <PagedTable
        query={query}
        columns={mayRevoke ? [...COLUMNS, revokeColumn(setConfirming)] : COLUMNS}
        rowKey={(key) => key.id}
        label={label}
        empty={<Empty icon={<KeyRound size={20} />} {...none} />}
      />
      {confirming && (
        <ConfirmDialog
          danger
          title={texts.revokeTitle(confirming.name)}
          text={texts.revokeText}
          action={texts.revoke}
          keep={texts.keep}
          busy={revoke.isPending}
          onConfirm={() => revoke.mutate(confirming.id)}
          onClose={() => setConfirming(null)}
        />
      )}
    </>
  );
}

const COLUMNS: readonly Column<Key>[] = [
  {
    name: texts.name,
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
  { name: texts.prefix, className: WIDEST, cell: (key) => <code className="text-muted">{key.prefix}…</code> },
  {
    name: texts.rights,
    className: WIDE,
    cell: (key) => <span className="whitespace-nowrap">{rightsOf(key)}</span>,
  },
  {
    name: texts.lastUsed,
    className: WIDEST,
    cell: (key) => (key.last_used_at ? <Time at={key.last_used_at} className="whitespace-nowrap" /> : texts.neverUsed),
  },
  { name: texts.ends, className: WIDE, cell: (key) => <Ends apiKey={key} /> },
];

function revokeColumn(onRevoke: (key: Key) => void): Column<Key> {
  return {
    name: texts.revoke,
    head: <span className="sr-only">{texts.revoke}</span>,
    right: true,
    cell: (key) =>
      !key.revoked_at && (
        <Button size="s" look="danger" aria-label={texts.revokeOf(key.name)} onClick={() => onRevoke(key)}>
          {texts.revoke}
        </Button>
      ),
  };
}

function Ends({ apiKey, isSentence = false }: { apiKey: Key; isSentence?: boolean }) {
  if (apiKey.revoked_at) return <Badge tone="plain">{texts.revoked}</Badge>;
  if (isOver(apiKey)) return <Badge tone="warn">{texts.expired}</Badge>;
  return (
    <span className={`whitespace-nowrap ${apiKey.expires_at ? "" : "text-muted"}`}>
      {isSentence && `${texts.ends} `}
      {apiKey.expires_at ? (
        <Time at={apiKey.expires_at} />
      ) : isSentence ? (
        texts.endsNever.toLowerCase()
      ) : (
        texts.endsNever
      )}
    </span>
  );
}

function rightsOf(key: Key): string {
  return key.scopes ? key.scopes.map((scope) => texts.scopeNames[scope] ?? scope).join(", ") : texts.allRights;
}

function isOver(key: Key): boolean {
  return Boolean(key.revoked_at) || (key.expires_at != null && Date.parse(key.expires_at) <= Date.now());
}
