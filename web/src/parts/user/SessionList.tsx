import type { QueryKey } from "@tanstack/react-query";
import { MonitorSmartphone } from "lucide-react";
import type { Schemas } from "@/api/types";
import { Badge, Button, Time } from "@/design";
import { notify } from "@/parts/notify";
import { useAction } from "@/parts/useAction";
import { securityTexts as texts } from "@/texts/account";

interface Props {
  sessions: readonly Schemas["Session"][];
  mayEnd: boolean;
  end: (id: string) => Promise<unknown>;
  changes: QueryKey;
}

/** Signed-in browsers of one user. */
export function SessionList({ sessions, mayEnd, end: request, changes }: Props) {
  const end = useAction({ mutationFn: request, changes: [changes], onSuccess: () => notify(texts.ended) });
  return (
    <ul aria-label={texts.sessions} className="panel num divide-y">
      {sessions.map((session) => (
        <li key={session.id} className="flex items-center gap-4 px-5 py-3.5">
          <MonitorSmartphone size={20} strokeWidth={1.6} className="shrink-0 text-muted max-sm:hidden" aria-hidden />
          <div className="min-w-0 grow">
            <div className="flex flex-wrap items-center gap-2">
              <span className="font-[550]">{session.device ?? texts.unknown}</span>
              {session.is_current && <Badge tone="ok">{texts.thisOne}</Badge>}
            </div>
            <div className="flex flex-wrap gap-x-3 text-s text-muted">
              <span>
                {texts.since} <Time at={session.created_at} /> {session.address && texts.from(session.address)}
              </span>
              <span>
                {texts.seen} <Time at={session.last_seen_at} />
              </span>
            </div>
          </div>
          {mayEnd && !session.is_current && (
            <Button
              size="s"
              aria-label={texts.endOf(session.device ?? texts.unknown)}
              busy={end.isPending && end.variables === session.id}
              onClick={() => end.mutate(session.id)}
            >
              {texts.end}
            </Button>
          )}
        </li>
      ))}
    </ul>
  );
}
