import { useInfiniteQuery } from "@tanstack/react-query";
import { MailPlus } from "lucide-react";
import { useState } from "react";
import { api } from "@/api/client";
import { keys } from "@/api/keys";
import { Badge, Button, type Column, Empty, Time } from "@/design";
import { ConfirmDialog } from "@/parts/ConfirmDialog";
import { notify } from "@/parts/notify";
import { PagedTable } from "@/parts/PagedTable";
import { useAction } from "@/parts/useAction";
import { useRole } from "@/parts/useRole";
import { type Invitation, invitationsQuery } from "@/parts/user/queries";
import { roleTexts, invitationTexts as texts } from "@/texts/users";
import { INVITATION_TONES, invitationState } from "./invitations";

export function InvitationList() {
  const [confirming, setConfirming] = useState<Invitation | null>(null);
  const { mayManageUsers } = useRole();
  const query = useInfiniteQuery(invitationsQuery);
  const revoke = useRevoke(() => setConfirming(null));
  const columns: readonly Column<Invitation>[] = [
    {
      name: texts.columns.email,
      cell: (each) => <span className="font-[550] [overflow-wrap:anywhere]">{each.email}</span>,
    },
    {
      name: texts.columns.state,
      cell: (each) => (
        <span title={each.mail_error ?? undefined}>
          <Badge tone={INVITATION_TONES[invitationState(each, new Date())]}>
            {texts.states[invitationState(each, new Date())]}
          </Badge>
        </span>
      ),
    },
    { name: texts.columns.role, className: "max-sm:hidden", cell: (each) => roleTexts[each.role] },
    { name: texts.columns.tenant, className: "max-lg:hidden", cell: (each) => each.tenant },
    {
      name: texts.columns.expires,
      right: true,
      className: "max-lg:hidden",
      cell: (each) => <Time at={each.expires_at} className="whitespace-nowrap text-muted" />,
    },
  ];
  const menu: Column<Invitation> = {
    name: texts.revoke,
    head: <span className="sr-only">{texts.revoke}</span>,
    right: true,
    cell: (each) =>
      !each.accepted_at &&
      !each.revoked_at && (
        <Button size="s" look="danger" aria-label={texts.revokeOf(each.email)} onClick={() => setConfirming(each)}>
          {texts.revoke}
        </Button>
      ),
  };
  return (
    <>
      <PagedTable
        query={query}
        columns={mayManageUsers ? [...columns, menu] : columns}
        rowKey={(each) => each.id}
        label={texts.list}
        empty={<Empty icon={<MailPlus size={20} />} title={texts.none} text={texts.noneText} />}
      />
      {confirming && (
        <ConfirmDialog
          danger
          title={texts.revokeTitle(confirming.email)}
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

function useRevoke(onDone: () => void) {
  return useAction({
    mutationFn: (id: string) =>
      api.DELETE("/api/admin/invitations/{invitation_id}", { params: { path: { invitation_id: id } } }),
    onSuccess: () => notify(texts.revoked),
    changes: [keys.invitations],
    onEnd: onDone,
  });
}
