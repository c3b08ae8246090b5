import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import { Button, Skeleton } from "@/design";
import { ConfirmDialog } from "@/parts/ConfirmDialog";
import { notify } from "@/parts/notify";
import { useAction } from "@/parts/useAction";
import { SessionList } from "@/parts/user/SessionList";
import { securityTexts } from "@/texts/account";
import { sessionsQuery } from "./queries";

/** Signed-in browsers. The user can end one session, or all others. */
export function SessionSection() {
  const [isConfirming, setConfirming] = useState(false);
  const { data: sessions } = useQuery(sessionsQuery);
  const endOthers = useAction({
    mutationFn: () => data(api.DELETE("/api/sessions", { params: { query: { keep_current: true } } })),
    changes: [keys.sessions],
    onSuccess: ({ ended }) => notify(securityTexts.endedOthers(ended)),
    onEnd: () => setConfirming(false),
  });
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
      {sessions ? (
        <SessionList
          sessions={sessions}
          mayEnd
          end={(id) => api.DELETE("/api/sessions/{session_id}", { params: { path: { session_id: id } } })}
          changes={keys.sessions}
        />
      ) : (
        <Skeleton className="h-20" />
      )}
      {isConfirming && (
        <ConfirmDialog
          danger
          title={securityTexts.endOthersTitle}
          text={securityTexts.endOthersText}
          action={securityTexts.endOthers}
          keep={securityTexts.keep}
          busy={endOthers.isPending}
          onConfirm={endOthers.mutate}
          onClose={() => setConfirming(false)}
        />
      )}
    </section>
  );
}
