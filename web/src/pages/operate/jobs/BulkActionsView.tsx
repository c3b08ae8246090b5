import { useQuery } from "@tanstack/react-query";
import { ListChecks } from "lucide-react";
import { Empty } from "@/design";
import { LinkButton } from "@/parts/LinkButton";
import { Pending } from "@/parts/Pending";
import { allJobsTexts } from "@/texts/all-jobs";
import { BulkActionProgress } from "./BulkActionProgress";
import { searchOf, wordsOf } from "./filter-words";
import { bulkActionsQuery } from "./queries";

export function BulkActionsView() {
  const query = useQuery(bulkActionsQuery);
  if (!query.data) return <Pending query={query} className="h-64" />;
  if (query.data.items.length === 0)
    return <Empty icon={<ListChecks size={20} />} title={allJobsTexts.noActions} text={allJobsTexts.noActionsText} />;
  return (
    <ul className="grid gap-3" aria-label={allJobsTexts.bulkActions}>
      {query.data.items.map((action) => {
        const search = searchOf(action.filter);
        return (
          <li key={action.id} className="panel grid gap-3 p-4">
            <BulkActionProgress action={action} />
            <div className="flex flex-wrap items-center justify-between gap-2 border-t pt-3 text-s">
              <span className="min-w-0 break-words text-muted">
                {wordsOf(action.filter)}
                {action.reason && ` · ${action.reason}`}
              </span>
              {search && (
                <LinkButton size="s" look="quiet" to="/operate/jobs" search={search}>
                  {allJobsTexts.sameFilter}
                </LinkButton>
              )}
            </div>
          </li>
        );
      })}
    </ul>
  );
}
