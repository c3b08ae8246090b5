import { Link } from "@tanstack/react-router";
import type { Schemas } from "@/api/types";
import { duration, Table, type Column } from "@/design";
import { Section } from "@/pages/operate-worker/Section";
import { queuedText } from "@/parts/queued-jobs";
import { fleetTexts } from "@/texts/fleets";

type Row = { slug: string; numbers: Schemas["WorkflowMetrics"] | undefined };
const texts = fleetTexts.queues;

const COLUMNS: readonly Column<Row>[] = [
  {
    name: texts.workflow,
    cell: ({ slug }) => (
      <Link to="/operate" search={{ workflow: slug }} className="font-[550] [overflow-wrap:anywhere] hover:underline">
        {slug}
      </Link>
    ),
  },
  { name: texts.waiting, right: true, cell: ({ numbers }) => queuedText(numbers ? [numbers] : []) },
  { name: texts.oldest, right: true, cell: ({ numbers }) => (numbers?.oldest_wait_seconds ? duration(numbers.oldest_wait_seconds) : "–") },
  { name: texts.running, right: true, cell: ({ numbers }) => numbers?.leased ?? 0 },
  { name: texts.completed, right: true, className: "max-sm:hidden", cell: ({ numbers }) => numbers?.completed_last_hour ?? 0 },
  { name: texts.failed, right: true, className: "max-lg:hidden", cell: ({ numbers }) => numbers?.failed_last_hour ?? 0 },
  { name: texts.runTime, right: true, className: "max-lg:hidden", cell: ({ numbers }) => (numbers?.moving_average_seconds ? duration(numbers.moving_average_seconds) : "–") },
];

/** What the fleet's workers run, and what waits of it. Other fleets may serve the same workflows. */
export function WorkflowQueues({ slugs, metrics }: { slugs: readonly string[]; metrics: readonly Schemas["WorkflowMetrics"][] }) {
  const rows = slugs.map((slug) => ({ slug, numbers: metrics.find((each) => each.workflow === slug) }));
  return (
    <Section hasTable title={texts.title}>
      {rows.length === 0 ? <p className="text-muted">{texts.none}</p> : <Table label={texts.title} rows={rows} columns={COLUMNS} rowKey={(row) => row.slug} />}
    </Section>
  );
}
