import { useQuery } from "@tanstack/react-query";
import { X } from "lucide-react";
import { useRef, useState } from "react";
import { Button } from "@/design";
import { allJobsTexts } from "@/texts/all-jobs";
import { BulkActionProgress } from "./BulkActionProgress";
import { bulkActionsQuery } from "./queries";

/** Running actions. An action that ends while the page is open stays with its result until the user hides it. */
export function RunningActions() {
  const { data } = useQuery(bulkActionsQuery);
  const seen = useRef(new Set<string>());
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const actions = data?.items ?? [];
  for (const action of actions) if (action.state === "running") seen.current.add(action.id);
  const shown = actions.filter((action) => seen.current.has(action.id) && !hidden.has(action.id));
  if (shown.length === 0) return null;
  return (
    <section aria-label={allJobsTexts.bulkActions} className="mb-5 grid gap-3">
      {shown.map((action) => (
        <div key={action.id} className="panel flex items-start gap-2 p-4">
          <div className="min-w-0 grow">
            <BulkActionProgress action={action} />
          </div>
          {action.state !== "running" && (
            <Button
              look="quiet"
              size="icon"
              className="-mt-1 -mr-1"
              aria-label={allJobsTexts.hide}
              onClick={() => setHidden(new Set([...hidden, action.id]))}
              icon={<X size={16} />}
            />
          )}
        </div>
      ))}
    </section>
  );
}
