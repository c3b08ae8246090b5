import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { meQuery } from "@/api/queries";
import { Badge, PageHead, Skeleton, Time } from "@/design";
import { RevokeDialog } from "@/pages/operate-workers/RevokeDialog";
import { stateOf, TONES } from "@/pages/operate-workers/state";
import { WorkerMenu } from "@/pages/operate-workers/WorkerMenu";
import { ProblemPanel } from "@/parts/ProblemPanel";
import { useTitle } from "@/parts/useTitle";
import { workersTexts } from "@/texts/workers";
import { CannotRun } from "./CannotRun";
import { EngineTable } from "./EngineTable";
import { HeldJobs } from "./HeldJobs";
import { workerQuery } from "./queries";
import { SessionTable } from "./SessionTable";
import { UtilisationChart } from "./UtilisationChart";
import { WorkerEvents } from "./WorkerEvents";
import { WorkerFacts } from "./WorkerFacts";

export function WorkerPage() {
  const { id } = useParams({ from: "/framed/operator/operate/workers/$id" });
  const { data: worker, error, refetch } = useQuery(workerQuery(id));
  const { data: me } = useQuery(meQuery);
  const [isAsked, setAsked] = useState(false);
  const navigate = useNavigate();
  useTitle(worker?.display_name || id);
  if (error && !worker) return <ProblemPanel error={error} onRetry={() => void refetch()} />;
  if (!worker) return <Skeleton className="h-64" />;
  return (
    <>
      <PageHead
        isTight
        above={<Badge tone={TONES[stateOf(worker)]}>{workersTexts.states[stateOf(worker)]}</Badge>}
        title={worker.display_name || worker.worker_id}
        text={
          <>
            {worker.is_draining && worker.drained_by ? workersTexts.drainedBy(worker.drained_by, worker.drain_reason) : workersTexts.columns.seen} <Time at={worker.is_draining && worker.drained_since ? worker.drained_since : worker.last_seen_at} />
          </>
        }
        actions={me?.role === "operator" ? <WorkerMenu worker={worker} onRevoke={() => setAsked(true)} /> : undefined}
      />
      <div className="grid gap-8">
        <HeldJobs leases={worker.leases} />
        <UtilisationChart id={id} />
        <EngineTable worker={worker} />
        <WorkerFacts worker={worker} />
        {worker.cannot_run.length > 0 && <CannotRun workflows={worker.cannot_run} />}
        <SessionTable sessions={worker.sessions} />
        <WorkerEvents id={id} />
      </div>
      <RevokeDialog worker={isAsked ? worker : null} onClose={() => setAsked(false)} onRevoked={() => void navigate({ to: "/operate/workers" })} />
    </>
  );
}
