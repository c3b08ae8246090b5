import { useQuery } from "@tanstack/react-query";
import { MonitorSmartphone } from "lucide-react";
import { useState } from "react";
import type { Schemas } from "@/api/types";
import { Button, Dialog, Empty, Skeleton, Time } from "@/design";
import { ProblemPanel } from "@/parts/ProblemPanel";
import { useRole } from "@/parts/useRole";
import { securityTexts } from "@/texts/account";
import { userSessionsTexts as texts } from "@/texts/users";
import { userSessionsQuery } from "./queries";
import { useEndSession, useEndSessions } from "./useEndSessions";

export function UserSessions({ user }: { user: Schemas["User"] }) {
  const [isConfirming, setConfirming] = useState(false);
  const { mayManageUsers } = useRole();
  const { data: sessions, error, refetch } = useQuery(userSessionsQuery(user.id));
  const end = useEndSession(user.id);
  const endAll = useEndSessions(user.id, () => setConfirming(false));
  if (error && !sessions) return <ProblemPanel error={error} onRetry={() => void refetch()} />;
  if (!sessions) return <Skeleton className="h-20" />;
  if (sessions.length === 0) {
    return (
      <div className="panel">
        <Empty icon={<MonitorSmartphone size={20} />} title={texts.none} />
      </div>
    );
  }
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-4">
      <ul aria-label={texts.list} className="panel num divide-y">
        {sessions.map((session) => (
          <li key={session.id} className="flex items-center gap-4 px-5 py-3.5">
            <div className="min-w-0 grow">
              <span className="font-[550]">{session.device ?? securityTexts.unknown}</span>
              <div className="flex flex-wrap gap-x-3 text-s text-muted">
                <span>
                  {securityTexts.since} <Time at={session.created_at} />{" "}
                  {session.address && securityTexts.from(session.address)}
                </span>
                <span>
                  {securityTexts.seen} <Time at={session.last_seen_at} />
                </span>
              </div>
            </div>
            {mayManageUsers && (
              <Button
                size="s"
                aria-label={securityTexts.endOf(session.device ?? securityTexts.unknown)}
                busy={end.isPending && end.variables === session.id}
                onClick={() => end.mutate(session.id)}
              >
                {securityTexts.end}
              </Button>
            )}
          </li>
        ))}
      </ul>
      {mayManageUsers && (
        <Button look="danger" className="justify-self-start" onClick={() => setConfirming(true)}>
          {texts.endAll}
        </Button>
      )}
      <Dialog
        open={isConfirming}
        onOpenChange={setConfirming}
        title={texts.endAllTitle(user.email)}
        text={texts.endAllText}
        actions={
          <>
            <Button onClick={() => setConfirming(false)}>{texts.keep}</Button>
            <Button look="danger" busy={endAll.isPending} onClick={() => endAll.mutate()}>
              {texts.endAll}
            </Button>
          </>
        }
      />
    </div>
  );
}
