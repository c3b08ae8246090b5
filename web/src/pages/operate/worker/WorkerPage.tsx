import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { meQuery } from "@/api/queries";
import { Badge, PageHead, Time } from "@/design";
import { BackLink } from "@/parts/BackLink";
import { Pending } from "@/parts/Pending";
import { useTitle } from "@/parts/useTitle";
import { drainText, stateOf, TONES } from "@/parts/worker/state";
import { WorkerMenu } from "@/parts/worker/WorkerMenu";
import { type Question, WorkerQuestion } from "@/parts/worker/WorkerQuestion";
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
  const [question, setQuestion] = useState<Question | null>(null);
  const navigate = useNavigate();
  useTitle(worker?.display_name || id);
  if (!worker) return <Pending query={{ error, refetch }} className="h-64" />;
  return (
    <>
      <PageHead
        isTight
        above={
          <BackLink to="/operate/workers" label={workersTexts.title}>
            <Badge tone={TONES[stateOf(worker)]}>{workersTexts.states[stateOf(worker)]}</Badge>
          </BackLink>
        }
        title={worker.display_name || worker.worker_id}
        text={
          <>
            {drainText(worker) ?? workersTexts.columns.seen}{" "}
            <Time at={worker.is_draining && worker.drained_since ? worker.drained_since : worker.last_seen_at} />
          </>
        }
        actions={me?.role === "operator" ? <WorkerMenu worker={worker} onQuestion={setQuestion} /> : undefined}
      />
      <div className="grid gap-8">
        <HeldJobs workerId={id} leases={worker.leases} />
        <UtilisationChart id={id} />
        <EngineTable worker={worker} />
        <WorkerFacts worker={worker} />
        {worker.cannot_run.length > 0 && <CannotRun workflows={worker.cannot_run} />}
        <SessionTable sessions={worker.sessions} />
        <WorkerEvents id={id} />
      </div>
      {question && (
        <WorkerQuestion
          question={question}
          onClose={() => setQuestion(null)}
          onRevoked={() => void navigate({ to: "/operate/workers" })}
        />
      )}
    </>
  );
}
