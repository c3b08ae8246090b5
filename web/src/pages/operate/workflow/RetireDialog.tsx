import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { metricsQuery } from "@/api/queries";
import { Skeleton } from "@/design";
import { ConfirmDialog } from "@/parts/ConfirmDialog";
import { waitingText } from "@/parts/queued-jobs";
import { effectRecordsQuery, type WorkflowDetail } from "@/parts/workflow/queries";
import { workflowsTexts } from "@/texts/workflows";
import { useSwitchWorkflow } from "./useWorkflowActions";

/** Shows how a deactivation changes effects and jobs of the workflow, before it happens. */
export function RetireDialog({ workflow, onClose }: { workflow: WorkflowDetail; onClose: () => void }) {
  const retire = useSwitchWorkflow(workflow.slug, onClose);
  const effects = useQuery(effectRecordsQuery(workflow.slug));
  const metrics = useQuery(metricsQuery);
  const published = effects.data?.filter((each) => each.is_published);
  const queue = metrics.data?.workflows.find((each) => each.workflow === workflow.slug);
  return (
    <ConfirmDialog
      danger
      title={workflowsTexts.retireTitle(workflow.name)}
      action={workflowsTexts.retireIt}
      busy={retire.isPending}
      onConfirm={() => retire.mutate(false)}
      onClose={onClose}
    >
      {published === undefined || metrics.data === undefined ? (
        <Skeleton className="h-16" />
      ) : (
        <>
          <div>
            <p>{workflowsTexts.retireEffects(published.length)}</p>
            <ul className="mt-1 list-disc pl-5">
              {published.map((each) => (
                <li key={each.id}>
                  <Link
                    to="/operate/effects/$slug"
                    params={{ slug: each.slug }}
                    className="[overflow-wrap:anywhere] hover:underline"
                  >
                    {each.name}
                  </Link>
                </li>
              ))}
            </ul>
          </div>
          <p>
            {workflowsTexts.retireQueued(
              queue ? waitingText(queue) : "0",
              (queue?.leased ?? 0) + (queue?.waiting ?? 0),
            )}
          </p>
        </>
      )}
    </ConfirmDialog>
  );
}
