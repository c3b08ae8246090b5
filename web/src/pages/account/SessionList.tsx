import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { MonitorSmartphone } from "lucide-react";
import { useState } from "react";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import { Badge, Button, Dialog, Skeleton, Time } from "@/design";
import { notify, notifyError } from "@/parts/notify";
import { securityTexts } from "@/texts/account";
import { sessionsQuery } from "./queries";

/** Signed-in browsers. The user can end one session, or all others. */
export function SessionList() {
  const [isConfirming, setConfirming] = useState(false);
  const { data: sessions } = useQuery(sessionsQuery);
  const end = useEnd();
  const endOthers = useEndOthers(() => setConfirming(false));
  return (
    <section>
      <div className="mb-4 flex flex-wrap items-end justify-between gap-4">
        <div>
          <h2>{securityTexts.sessions}</h2>
          <p className="text-muted">{securityTexts.sessionsText}</p>
        </div>
        {sessions && sessions.length > 1 && (
          <Button look="danger" onClick={() => setConfirming(true)}>
            {securityTexts.endOthers}
          </Button>
        )}
      </div>
      {!sessions ? (
        <Skeleton className="h-20" />
      ) : (
        <ul className="panel num divide-y">
          {sessions.map((session) => (
            <li key={session.id} className="flex items-center gap-4 px-5 py-3.5">
              <MonitorSmartphone
                size={20}
                strokeWidth={1.6}
                className="shrink-0 text-muted max-sm:hidden"
                aria-hidden
              />
              <div className="min-w-0 grow">
                <div className="flex flex-wrap items-center gap-2">
                  <span className="font-[550]">{session.device ?? securityTexts.unknown}</span>
                  {session.is_current && <Badge tone="ok">{securityTexts.thisOne}</Badge>}
                </div>
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
              {!session.is_current && (
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
      )}
      <Dialog
        open={isConfirming}
        onOpenChange={setConfirming}
        title={securityTexts.endOthersTitle}
        text={securityTexts.endOthersText}
        actions={
          <>
            <Button onClick={() => setConfirming(false)}>{securityTexts.keep}</Button>
            <Button look="danger" busy={endOthers.isPending} onClick={() => endOthers.mutate()}>
              {securityTexts.endOthers}
            </Button>
          </>
        }
      />
    </section>
  );
}

function useEnd() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (id: string) => api.DELETE("/api/sessions/{session_id}", { params: { path: { session_id: id } } }),
    onSuccess: () => notify(securityTexts.ended),
    onError: (error) => notifyError(error),
    onSettled: () => client.invalidateQueries({ queryKey: keys.sessions }),
  });
}

function useEndOthers(onDone: () => void) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: () => data(api.DELETE("/api/sessions", { params: { query: { keep_current: true } } })),
    onSuccess: ({ ended }) => notify(securityTexts.endedOthers(ended)),
    onError: (error) => notifyError(error),
    onSettled: async () => {
      await client.invalidateQueries({ queryKey: keys.sessions });
      onDone();
    },
  });
}
