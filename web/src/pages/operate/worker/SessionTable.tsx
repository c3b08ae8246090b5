import type { Schemas } from "@/api/types";
import { Badge, type Column, duration, Table, Time } from "@/design";
import { Section } from "@/parts/Section";
import { workerTexts } from "@/texts/workers";

type Session = Schemas["WorkerSession"];
const texts = workerTexts.sessions;

const COLUMNS: readonly Column<Session>[] = [
  { name: texts.started, cell: (session) => <Time at={session.started_at} className="sm:whitespace-nowrap" /> },
  {
    name: texts.ended,
    cell: (session) =>
      session.ended_at ? (
        <Time at={session.ended_at} className="whitespace-nowrap" />
      ) : (
        <Badge tone="ok">{texts.open}</Badge>
      ),
  },
  {
    name: texts.reason,
    className: "max-lg:hidden",
    cell: (session) => <span className="[overflow-wrap:anywhere]">{session.end_reason ?? "–"}</span>,
  },
  {
    name: texts.busy,
    right: true,
    cell: (session) => <span className="whitespace-nowrap">{duration(session.busy_seconds)}</span>,
  },
  { name: texts.completed, right: true, cell: (session) => session.jobs_completed },
  { name: texts.failed, right: true, className: "max-sm:hidden", cell: (session) => session.jobs_failed },
  { name: texts.requeued, right: true, className: "max-sm:hidden", cell: (session) => session.jobs_requeued },
];

export function SessionTable({ sessions }: { sessions: readonly Session[] }) {
  return (
    <Section hasTable title={texts.title}>
      <Table label={texts.title} rows={sessions} columns={COLUMNS} rowKey={(session) => session.id} />
    </Section>
  );
}
