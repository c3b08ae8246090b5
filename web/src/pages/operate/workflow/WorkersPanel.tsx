import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { TriangleAlert } from "lucide-react";
import type { Schemas } from "@/api/types";
import { Badge, classes } from "@/design";
import { Pending } from "@/parts/Pending";
import { lackText } from "@/parts/workflow/lack";
import { requirementsTexts as texts } from "@/texts/requirements";
import { workflowWorkersQuery } from "./queries";

/**
 * Live workers that can run the saved workflow, and what the others lack. `isOutdated`: unsaved changes may change the
 * requirements.
 */
export function WorkersPanel({ slug, isOutdated }: { slug: string; isOutdated: boolean }) {
  const { data: workers, error, refetch } = useQuery(workflowWorkersQuery(slug));
  return (
    <section aria-labelledby="workers-title" className="panel p-4 sm:p-5">
      <h2 id="workers-title">{texts.workers}</h2>
      <p className="mt-0.5 mb-3 text-s text-muted">{texts.workersText}</p>
      {/* The element always exists, so a screen reader announces its changes. */}
      <p
        role="status"
        className={classes(
          isOutdated && "mb-3 flex items-start gap-2 rounded-s bg-warn-soft px-3 py-2 text-s text-warn",
        )}
      >
        {isOutdated && (
          <>
            <TriangleAlert size={15} aria-hidden className="mt-0.5 shrink-0" />
            {texts.unsaved}
          </>
        )}
      </p>
      {workers ? (
        workers.live === 0 ? (
          <p>
            {texts.noWorkers}{" "}
            <Link
              to="/operate/workflows/$slug"
              params={{ slug }}
              search={{ tab: "settings" }}
              className="text-accent underline"
            >
              {texts.chooseFleets}
            </Link>
          </p>
        ) : (
          <>
            <p className="font-[550]">{texts.able(workers.able, workers.live)}</p>
            <ul className="mt-2 divide-y">
              {workers.groups.map((group, place) => (
                <Group key={place} group={group} />
              ))}
            </ul>
          </>
        )
      ) : (
        <Pending query={{ error, refetch }} className="h-16" />
      )}
    </section>
  );
}

function Group({ group }: { group: Schemas["WorkerGroup"] }) {
  const more = group.workers - group.worker_ids.length;
  return (
    <li className="grid gap-1 py-3 last:pb-0">
      <div className="flex flex-wrap items-center gap-2">
        {group.lacks.length === 0 ? <Badge tone="ok">{texts.can}</Badge> : <Badge tone="warn">{texts.cannot}</Badge>}
        <span className="num text-s text-muted">
          {texts.count(group.workers)}
          {group.draining > 0 && `, ${texts.draining(group.draining)}`}
        </span>
      </div>
      {group.lacks.length > 0 && (
        <p className="text-s [overflow-wrap:anywhere]">
          {texts.lacks} {group.lacks.map(lackText).join(", ")}
        </p>
      )}
      {!group.has_reported && <p className="text-s text-muted">{texts.unreported}</p>}
      <p className="text-s text-muted [overflow-wrap:anywhere]">
        {group.worker_ids.map((id, place) => (
          <span key={id}>
            {place > 0 && ", "}
            <Link to="/operate/workers/$id" params={{ id }} className="hover:underline">
              {id}
            </Link>
          </span>
        ))}
        {more > 0 && ` ${texts.more(more)}`}
      </p>
    </li>
  );
}
