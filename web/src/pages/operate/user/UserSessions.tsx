import { useQuery } from "@tanstack/react-query";
import { MonitorSmartphone } from "lucide-react";
import { useState } from "react";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import { Button, Empty } from "@/design";
import { ConfirmDialog } from "@/parts/ConfirmDialog";
import { notify } from "@/parts/notify";
import { Pending } from "@/parts/Pending";
import { useAction } from "@/parts/useAction";
import { useRole } from "@/parts/useRole";
import { SessionList } from "@/parts/user/SessionList";
import { securityTexts } from "@/texts/account";
import { userSessionsTexts as texts } from "@/texts/users";
import { userSessionsQuery } from "./queries";

export function UserSessions({ user }: { user: Schemas["User"] }) {
  const [isConfirming, setConfirming] = useState(false);
  const { mayManageUsers } = useRole();
  const query = useQuery(userSessionsQuery(user.id));
  const path = { user_id: user.id };
  const changes = keys.userSessions(user.id);
  const endAll = useAction({
    mutationFn: () => data(api.DELETE("/api/admin/users/{user_id}/sessions", { params: { path } })),
    changes: [changes],
    onSuccess: ({ ended }) => notify(securityTexts.endedOthers(ended)),
    onEnd: () => setConfirming(false),
  });
  if (!query.data) return <Pending query={query} className="h-20" />;
  if (query.data.length === 0) {
    return (
      <div className="panel">
        <Empty icon={<MonitorSmartphone size={20} />} title={texts.none} />
      </div>
    );
  }
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-4">
      <SessionList
        sessions={query.data}
        mayEnd={mayManageUsers}
        end={(id) =>
          api.DELETE("/api/admin/users/{user_id}/sessions/{session_id}", {
            params: { path: { ...path, session_id: id } },
          })
        }
        changes={changes}
      />
      {mayManageUsers && (
        <Button look="danger" className="justify-self-start" onClick={() => setConfirming(true)}>
          {texts.endAll}
        </Button>
      )}
      {isConfirming && (
        <ConfirmDialog
          danger
          title={texts.endAllTitle(user.email)}
          text={texts.endAllText}
          action={texts.endAll}
          busy={endAll.isPending}
          onConfirm={endAll.mutate}
          onClose={() => setConfirming(false)}
        />
      )}
    </div>
  );
}
