import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { duration, PageHead, Stat } from "@/design";
import { BackLink } from "@/parts/BackLink";
import { FleetBadge } from "@/parts/fleet/FleetBadge";
import { Pending } from "@/parts/Pending";
import { useRole } from "@/parts/useRole";
import { useTitle } from "@/parts/useTitle";
import { fleetsTexts, fleetTexts } from "@/texts/fleets";
import { Decisions } from "./Decisions";
import { FleetActions } from "./FleetActions";
import { fleetNumbersQuery, fleetQuery } from "./queries";
import { ScalingSection } from "./ScalingSection";
import { Tokens } from "./Tokens";
import { WorkflowQueues } from "./WorkflowQueues";

export function FleetPage() {
  const id = Number(useParams({ from: "/framed/operator/operate/fleets/$id" }).id);
  const { data: fleet, error, refetch } = useQuery(fleetQuery(id));
  const { data: numbers } = useQuery(fleetNumbersQuery(id));
  const { mayOperate } = useRole();
  useTitle(fleet?.name ?? fleetTexts.title);
  if (!fleet) return <Pending query={{ error, refetch }} className="h-64" />;
  const scaling = fleet.scaling;
  return (
    <>
      <PageHead
        isTight
        above={
          <BackLink to="/operate/fleets" label={fleetsTexts.title}>
            <FleetBadge fleet={fleet} />
          </BackLink>
        }
        title={fleet.name}
        text={`${fleet.slug}, ${fleet.stage}`}
        actions={mayOperate ? <FleetActions fleet={fleet} /> : undefined}
      />
      <div className="mb-8 grid grid-cols-2 gap-3 lg:grid-cols-4">
        <Stat label={fleetTexts.live} value={fleet.live_workers} hint={fleetTexts.registered(fleet.workers)} />
        <Stat
          label={fleetTexts.wanted}
          value={scaling?.wanted ?? fleet.desired_workers ?? "–"}
          hint={scaling ? fleetTexts.bounds(scaling.minimum, scaling.maximum) : fleetTexts.notScaled}
        />
        <Stat
          label={fleetTexts.waiting}
          value={numbers?.queued_jobs ?? "–"}
          hint={numbers && fleetTexts.work(duration(numbers.queued_seconds))}
        />
        <Stat
          label={fleetTexts.running}
          value={numbers?.running_jobs ?? "–"}
          hint={numbers && fleetTexts.needs(numbers.needed_workers)}
        />
      </div>
      <div className="grid grid-cols-[minmax(0,1fr)] gap-8">
        <WorkflowQueues fleet={fleet} mayChange={mayOperate} />
        <ScalingSection fleet={fleet} mayChange={mayOperate} />
        <Tokens fleetId={id} mayChange={mayOperate} />
        {scaling && <Decisions fleetId={id} />}
        <p className="text-muted">
          <Link to="/operate/workers" search={{ view: "all", q: fleet.slug }} className="underline underline-offset-2">
            {fleetTexts.allWorkers}
          </Link>
        </p>
      </div>
    </>
  );
}
