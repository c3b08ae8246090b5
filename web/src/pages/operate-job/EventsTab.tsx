import type { JobEvent } from "@/api/types";
import { absoluteTime, Table, type Column } from "@/design";
import { titleOf } from "@/parts/job/events";
import { operatorJobTexts as texts } from "@/texts/operator-job";

const COLUMNS: readonly Column<JobEvent>[] = [
  { name: texts.eventColumns.at, cell: (event) => <time dateTime={event.at} className="whitespace-nowrap">{absoluteTime(new Date(event.at))}</time> },
  { name: texts.eventColumns.change, cell: (event) => titleOf(event) },
  { name: texts.eventColumns.actor, cell: (event) => <code className="[overflow-wrap:anywhere]">{event.actor}</code> },
  { name: texts.eventColumns.reason, cell: (event) => <span className="[overflow-wrap:anywhere]">{event.reason ?? "–"}</span> },
];

export function EventsTab({ events }: { events: readonly JobEvent[] }) {
  return <Table label={texts.events} rows={events} columns={COLUMNS} rowKey={(event) => event.seq} />;
}
