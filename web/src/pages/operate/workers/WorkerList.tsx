import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { meQuery } from "@/api/queries";
import { Badge, type Column, Table, Time } from "@/design";
import { drainText, stateOf, TONES, versionsOf, type Worker } from "@/parts/worker/state";
import { WorkerMenu } from "@/parts/worker/WorkerMenu";
import { type Question, WorkerQuestion } from "@/parts/worker/WorkerQuestion";
import { workersTexts } from "@/texts/workers";
import { CurrentJobs } from "./CurrentJobs";

const texts = workersTexts.columns;
const WIDE = "max-lg:hidden";
const WIDEST = "max-xl:hidden";
const SHOWN_WORKFLOWS = 2;

export function WorkerList({ workers }: { workers: readonly Worker[] }) {
  const [confirming, setConfirming] = useState<Question | null>(null);
  const { data: me } = useQuery(meQuery);
  // A viewer sees all workers and changes none.
  const mayChange = me?.role === "operator";
  return (
    <>
      <Table
        label={workersTexts.list}
        rows={workers}
        columns={mayChange ? [...COLUMNS, menuColumn(setConfirming)] : COLUMNS}
        rowKey={(worker) => worker.worker_id}
      />
      {confirming && <WorkerQuestion question={confirming} onClose={() => setConfirming(null)} />}
    </>
  );
}

const COLUMNS: readonly Column<Worker>[] = [
  {
    name: texts.worker,
    cell: (worker) => (
      <>
        <Link
          to="/operate/workers/$id"
          params={{ id: worker.worker_id }}
          className="font-[550] [overflow-wrap:anywhere] hover:underline"
        >
          {worker.display_name || worker.worker_id}
        </Link>
        {worker.display_name && worker.display_name !== worker.worker_id && (
          <code className="block text-muted [overflow-wrap:anywhere]">{worker.worker_id}</code>
        )}
      </>
    ),
  },
  {
    name: texts.state,
    cell: (worker) => (
      <>
        <Badge tone={TONES[stateOf(worker)]}>{workersTexts.states[stateOf(worker)]}</Badge>
        {worker.asg_unverified && <span className="mt-1 block text-muted">{workersTexts.unverified}</span>}
        {drainText(worker) && (
          <span className="mt-1 block text-muted [overflow-wrap:anywhere]">{drainText(worker)}</span>
        )}
      </>
    ),
  },
  { name: texts.load, cell: (worker) => <CurrentJobs worker={worker} /> },
  {
    name: texts.fleet,
    className: WIDE,
    cell: (worker) =>
      worker.fleet_slug ? (
        <span className="whitespace-nowrap">{`${worker.fleet_slug}, ${worker.stage}`}</span>
      ) : (
        <span className="text-muted">{workersTexts.noFleet}</span>
      ),
  },
  { name: texts.workflows, className: WIDE, cell: (worker) => <Workflows slugs={worker.workflows} /> },
  {
    name: texts.machine,
    className: WIDEST,
    cell: (worker) => [worker.instance_type, worker.capacity_type].filter(Boolean).join(", ") || "–",
  },
  { name: texts.versions, className: WIDEST, cell: (worker) => versionsOf(worker) || "–" },
  {
    name: texts.seen,
    right: true,
    className: "max-sm:hidden",
    cell: (worker) => <Time at={worker.last_seen_at} className="whitespace-nowrap" />,
  },
];

function menuColumn(onQuestion: (question: Question) => void): Column<Worker> {
  return {
    name: "menu",
    head: <span className="sr-only">{workersTexts.actionsOf("")}</span>,
    right: true,
    cell: (worker) => <WorkerMenu worker={worker} onQuestion={onQuestion} />,
  };
}

function Workflows({ slugs }: { slugs: readonly string[] }) {
  const more = slugs.length - SHOWN_WORKFLOWS;
  return (
    <span title={slugs.join("\n")} className="[overflow-wrap:anywhere]">
      {slugs.slice(0, SHOWN_WORKFLOWS).join(", ") || "–"}
      {more > 0 && <span className="text-muted"> {workersTexts.moreWorkflows(more)}</span>}
    </span>
  );
}
