import { Link } from "@tanstack/react-router";
import type { Schemas } from "@/api/types";
import { type Column, duration, Table } from "@/design";
import { waitingText } from "@/parts/queued-jobs";
import { operateTexts } from "@/texts/operate";
import { compact } from "./figures";

type Row = Schemas["WorkflowMetrics"] & { completed: number; failed: number };

const texts = operateTexts.columns;
const COLUMNS: readonly Column<Row>[] = [
  {
    name: texts.workflow,
    cell: (row) => (
      <Link
        to="/operate"
        search={(before: object) => ({ ...before, workflow: row.workflow })}
        className="font-[550] [overflow-wrap:anywhere] hover:underline"
      >
        {row.workflow}
      </Link>
    ),
  },
  { name: texts.waiting, right: true, cell: waitingText },
  {
    name: texts.running,
    right: true,
    className: "sm:max-lg:hidden",
    cell: (row) => compact.format(row.leased + row.waiting),
  },
  {
    name: texts.oldest,
    right: true,
    cell: (row) => (row.oldest_wait_seconds == null ? "–" : duration(row.oldest_wait_seconds)),
  },
  { name: texts.workers, right: true, cell: (row) => compact.format(row.live_workers) },
  { name: texts.completed, right: true, className: "sm:max-lg:hidden", cell: (row) => compact.format(row.completed) },
  { name: texts.failed, right: true, cell: (row) => compact.format(row.failed) },
  {
    name: texts.runTime,
    right: true,
    className: "max-lg:hidden max-sm:hidden!",
    cell: (row) => (row.p95_seconds == null ? "–" : duration(row.p95_seconds)),
  },
];

/** Workflows with jobs now, jobs in the range, or workers. */
export function WorkflowTable({
  metrics,
  statistics,
}: {
  metrics: Schemas["Metrics"];
  statistics: Schemas["Statistics"];
}) {
  const totals = new Map(statistics.workflows.map((each) => [each.workflow, each]));
  const rows = metrics.workflows
    .map((each) => ({
      ...each,
      completed: totals.get(each.workflow)?.completed ?? 0,
      failed: totals.get(each.workflow)?.failed ?? 0,
    }))
    .filter(
      (row) =>
        row.queued + row.delayed + row.leased + row.waiting + row.completed + row.failed > 0 ||
        (row.live_workers > 0 && !row.workflow.startsWith("actor:")),
    );
  if (rows.length === 0) return null;
  return (
    <section>
      <h2 className="mb-3">{operateTexts.workflows}</h2>
      <Table stacks label={operateTexts.workflows} rows={rows} columns={COLUMNS} rowKey={(row) => row.workflow} />
    </section>
  );
}
