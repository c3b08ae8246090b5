import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import type { Schemas } from "@/api/types";
import { Badge, Button, type Column, duration, Table } from "@/design";
import { Pending } from "@/parts/Pending";
import { queuedText } from "@/parts/queued-jobs";
import { Section } from "@/parts/Section";
import { lackText } from "@/parts/workflow/lack";
import { fleetTexts } from "@/texts/fleets";
import { fleetWorkflowsQuery } from "./queries";
import { WorkflowsDialog } from "./WorkflowsDialog";

type Row = Schemas["FleetWorkflow"];
const texts = fleetTexts.queues;

const COLUMNS: readonly Column<Row>[] = [
  {
    name: texts.workflow,
    cell: ({ workflow, is_active }) => (
      <>
        <Link to="/operate" search={{ workflow }} className="font-[550] [overflow-wrap:anywhere] hover:underline">
          {workflow}
        </Link>
        {!is_active && <span className="block text-muted">{texts.retired}</span>}
      </>
    ),
  },
  { name: texts.canRun, cell: (row) => <CanRun row={row} /> },
  {
    name: texts.waiting,
    right: true,
    cell: (row) => (
      <>
        {queuedText([row])}
        {row.delayed > 0 && <span className="block text-muted">{texts.delayed(row.delayed)}</span>}
      </>
    ),
  },
  {
    name: texts.oldest,
    right: true,
    cell: (row) => (row.oldest_wait_seconds ? duration(row.oldest_wait_seconds) : "–"),
  },
  { name: texts.running, right: true, cell: (row) => row.running },
  {
    name: texts.runTime,
    right: true,
    className: "sm:max-lg:hidden",
    cell: (row) => (row.average_seconds ? duration(row.average_seconds) : "–"),
  },
];

/** Workflows that the workers of the fleet can run, and their waiting jobs in its stage. */
export function WorkflowQueues({ fleet, mayChange }: { fleet: Schemas["Fleet"]; mayChange: boolean }) {
  const { data: rows, error, refetch } = useQuery(fleetWorkflowsQuery(fleet.id));
  const [isOpen, setOpen] = useState(false);
  const change = mayChange && (
    <Button size="s" onClick={() => setOpen(true)}>
      {fleetTexts.changeWorkflows}
    </Button>
  );
  return (
    <Section hasTable title={texts.title} actions={change}>
      <p className="-mt-2 mb-3 text-s text-muted">{texts.text(fleet.stage)}</p>
      {rows === undefined ? (
        <Pending query={{ error, refetch }} className="h-24" />
      ) : rows.length === 0 ? (
        <p className="text-muted">{texts.none}</p>
      ) : (
        <Table stacks label={texts.title} rows={rows} columns={COLUMNS} rowKey={(row) => row.workflow} />
      )}
      {isOpen && <WorkflowsDialog fleet={fleet} onClose={() => setOpen(false)} />}
    </Section>
  );
}

function CanRun({ row }: { row: Row }) {
  if (row.live === 0) return <Badge tone="plain">{texts.noLive}</Badge>;
  const tone = row.able === row.live ? "ok" : row.able > 0 ? "warn" : "bad";
  const unreported = row.groups.filter((group) => !group.has_reported).reduce((sum, group) => sum + group.workers, 0);
  return (
    <div className="grid justify-items-start gap-1">
      <Badge tone={tone}>{texts.able(row.able, row.live)}</Badge>
      {row.groups
        .filter((group) => group.lacks.length > 0)
        .map((group) => (
          <span key={group.worker_ids[0]} className="text-muted [overflow-wrap:anywhere]">
            {texts.lacks(group.workers, group.lacks.map(lackText).join(", "))}
          </span>
        ))}
      {unreported > 0 && <span className="text-muted">{texts.unreported(unreported)}</span>}
    </div>
  );
}
