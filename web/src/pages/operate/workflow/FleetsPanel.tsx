import { useQuery } from "@tanstack/react-query";
import { Switch } from "@/design";
import { Pending } from "@/parts/Pending";
import { fleetChoicesQuery } from "@/parts/workflow/queries";
import { workflowsTexts } from "@/texts/workflows";
import { useFleetSwitch } from "./useWorkflowActions";

/** Fleets whose workers get the jobs of a workflow. A switch takes effect at once: it is not part of a version. */
export function FleetsPanel({ slug, mayChange }: { slug: string; mayChange: boolean }) {
  const fleets = useQuery(fleetChoicesQuery);
  const assign = useFleetSwitch(slug);
  return (
    <section className="panel p-4 sm:p-5">
      <h2>{workflowsTexts.fleets}</h2>
      <p className="mt-0.5 mb-3 text-s text-muted">{workflowsTexts.fleetsText}</p>
      {!fleets.data ? (
        <Pending query={fleets} className="h-16" />
      ) : fleets.data.length === 0 ? (
        <p className="text-muted">{workflowsTexts.noFleets}</p>
      ) : (
        <ul className="divide-y">
          {fleets.data.map((fleet) => {
            const name = workflowsTexts.fleet(fleet.slug, fleet.stage);
            return (
              <li key={fleet.id} className="flex items-center justify-between gap-4 py-2.5">
                <div className="min-w-0">
                  <p className="font-[550] [overflow-wrap:anywhere]">{name}</p>
                  <p className="text-s text-muted">{workflowsTexts.liveWorkers(fleet.live_workers)}</p>
                </div>
                <Switch
                  label={workflowsTexts.runsOn(name)}
                  checked={fleet.workflows.includes(slug)}
                  disabled={!mayChange || (assign.isPending && assign.variables.fleet.id === fleet.id)}
                  onChange={(isOn) => assign.mutate({ fleet, isOn })}
                />
              </li>
            );
          })}
        </ul>
      )}
    </section>
  );
}
