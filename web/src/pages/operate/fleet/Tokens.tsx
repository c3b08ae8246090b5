import { useQuery } from "@tanstack/react-query";
import { Plus } from "lucide-react";
import { useState } from "react";
import type { Schemas } from "@/api/types";
import { Badge, Button, type Column, Table, Time } from "@/design";
import { ConfirmDialog } from "@/parts/ConfirmDialog";
import { Section } from "@/parts/Section";
import { fleetTexts } from "@/texts/fleets";
import { NewTokenDialog, ShownToken } from "./NewTokenDialog";
import { fleetTokensQuery } from "./queries";
import { useRevokeToken, useRotateToken } from "./useTokens";

type Token = Schemas["FleetToken"];
const texts = fleetTexts.tokens;

/** Tokens with which workers of this fleet register. */
export function Tokens({ fleetId, mayChange }: { fleetId: number; mayChange: boolean }) {
  const { data } = useQuery(fleetTokensQuery(fleetId));
  const [isNew, setNew] = useState(false);
  const [confirming, setConfirming] = useState<Token | null>(null);
  const rotate = useRotateToken(fleetId);
  const revoke = useRevokeToken(fleetId, () => setConfirming(null));
  const tokens = data?.items ?? [];
  const columns = mayChange ? [...COLUMNS, actionsColumn((token) => rotate.mutate(token.id), setConfirming)] : COLUMNS;
  return (
    <Section hasTable title={texts.title}>
      {mayChange && (
        <Button size="s" className="mb-3" icon={<Plus size={14} />} onClick={() => setNew(true)}>
          {texts.create}
        </Button>
      )}
      {tokens.length === 0 ? (
        <p className="text-muted">{texts.none}</p>
      ) : (
        <Table label={texts.title} rows={tokens} columns={columns} rowKey={(token) => token.id} />
      )}
      {isNew && <NewTokenDialog fleetId={fleetId} onClose={() => setNew(false)} />}
      {rotate.data && <ShownToken token={rotate.data.token} onClose={() => rotate.reset()} />}
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
    </Section>
  );
}

const COLUMNS: readonly Column<Token>[] = [
  {
    name: texts.name,
    cell: (token) => (
      <>
        <span className="font-[550] [overflow-wrap:anywhere]">{token.name}</span>
        <code className="block text-muted [overflow-wrap:anywhere]">{token.prefix}…</code>
      </>
    ),
  },
  { name: texts.state, cell: (token) => <TokenState token={token} /> },
  { name: texts.workers, right: true, className: "max-sm:hidden", cell: (token) => token.workers },
  {
    name: texts.lastUsed,
    className: "max-lg:hidden",
    cell: (token) =>
      token.last_used_at ? <Time at={token.last_used_at} className="whitespace-nowrap" /> : texts.neverUsed,
  },
  {
    name: texts.created,
    className: "max-lg:hidden",
    cell: (token) => <Time at={token.created_at} className="whitespace-nowrap" />,
  },
];

function actionsColumn(onRotate: (token: Token) => void, onRevoke: (token: Token) => void): Column<Token> {
  return {
    name: "actions",
    head: <span className="sr-only">{texts.actions}</span>,
    right: true,
    cell: (token) =>
      token.is_accepted && (
        <span className="flex justify-end gap-2 max-sm:flex-col">
          {!token.expires_at && (
            <Button size="s" aria-label={texts.rotateOf(token.name)} onClick={() => onRotate(token)}>
              {texts.rotate}
            </Button>
          )}
          <Button size="s" look="danger" aria-label={texts.revokeOf(token.name)} onClick={() => onRevoke(token)}>
            {texts.revoke}
          </Button>
        </span>
      ),
  };
}

function TokenState({ token }: { token: Token }) {
  if (token.revoked_at) return <Badge tone="plain">{texts.revoked}</Badge>;
  if (!token.is_accepted) return <Badge tone="plain">{texts.expired}</Badge>;
  if (token.expires_at)
    return (
      <Badge tone="warn">
        {texts.ends} <Time at={token.expires_at} />
      </Badge>
    );
  return <Badge tone="ok">{texts.accepted}</Badge>;
}
