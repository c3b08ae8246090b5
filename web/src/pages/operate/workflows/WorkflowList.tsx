import { Link } from "@tanstack/react-router";
import type { Schemas } from "@/api/types";
import { Badge, type Column, Table, Time } from "@/design";
import { waitingText } from "@/parts/queued-jobs";
import { workflowsTexts } from "@/texts/workflows";

type Metrics = Schemas["WorkflowMetrics"];
type Row = Schemas["WorkflowSummary"] & { metrics: Metrics | undefined };

const texts = workflowsTexts.columns;
const WIDE = "max-lg:hidden";

export function WorkflowList({
  workflows,
  metrics,
}: {
  workflows: readonly Schemas["WorkflowSummary"][];
  metrics: readonly Metrics[];
}) {
  const bySlug = new Map(metrics.map((each) => [each.workflow, each]));
  const rows = workflows.map((each) => ({ ...each, metrics: bySlug.get(each.slug) }));
  return <Table label={workflowsTexts.list} rows={rows} columns={COLUMNS} rowKey={(row) => row.id} />;
}

const COLUMNS: readonly Column<Row>[] = [
  {
    name: texts.workflow,
    cell: (row) => (
      <>
        <Link
          to="/operate/workflows/$slug"
          params={{ slug: row.slug }}
          className="font-[550] [overflow-wrap:anywhere] hover:underline"
        >
          {row.name}
        </Link>
        {row.name !== row.slug && <code className="block text-muted [overflow-wrap:anywhere]">{row.slug}</code>}
      </>
    ),
  },
  {
    name: texts.state,
    cell: (row) =>
      row.is_active ? <Badge tone="ok">{workflowsTexts.active}</Badge> : <Badge>{workflowsTexts.inactive}</Badge>,
  },
  {
    name: texts.waiting,
    right: true,
    className: "max-sm:hidden",
    cell: (row) => (row.metrics ? waitingText(row.metrics) : "–"),
  },
  {
    name: texts.running,
    right: true,
    className: "max-sm:hidden",
    cell: (row) => count(row.metrics && row.metrics.leased + row.metrics.waiting),
  },
  { name: texts.workers, right: true, className: WIDE, cell: (row) => count(row.metrics?.live_workers) },
  { name: texts.properties, className: WIDE, cell: (row) => row.properties.map((each) => each.key).join(", ") || "–" },
  { name: texts.result, className: WIDE, cell: (row) => `.${row.output_extension}` },
  {
    name: texts.changed,
    right: true,
    className: "max-lg:hidden",
    cell: (row) => <Time at={row.updated_at} className="whitespace-nowrap" />,
  },
];

function count(value: number | undefined): string {
  return value === undefined ? "–" : String(value);
}
