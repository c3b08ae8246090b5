import type { JobEvent } from "@/api/types";
import { absoluteTime, CopyButton, Table, type Column } from "@/design";
import { titleOf } from "@/parts/job/events";
import { operatorJobTexts as texts } from "@/texts/operator-job";

const COLUMNS: readonly Column<JobEvent>[] = [
  { name: texts.eventColumns.at, cell: (event) => <time dateTime={event.at} className="whitespace-nowrap">{absoluteTime(new Date(event.at))}</time> },
  { name: texts.eventColumns.change, cell: (event) => titleOf(event) },
  { name: texts.eventColumns.actor, cell: (event) => <code className="[overflow-wrap:anywhere]">{event.actor}</code> },
  { name: texts.eventColumns.reason, cell: (event) => <span className="[overflow-wrap:anywhere]">{event.reason ?? "–"}</span> },
];

export function EventsTab({ jobId, events }: { jobId: string; events: readonly JobEvent[] }) {
  return (
    <div className="grid gap-4">
      <Table label={texts.events} rows={events} columns={COLUMNS} rowKey={(event) => event.seq} />
      <section aria-labelledby="log-lines" className="panel grid gap-2 p-4 sm:p-5">
        <h2 id="log-lines">{texts.logs}</h2>
        <p className="text-s text-muted">{texts.logsText}</p>
        <p className="flex items-center gap-2">
          <code className="min-w-0 [overflow-wrap:anywhere]">{jobId}</code>
          <CopyButton text={jobId} label={texts.copyId} />
        </p>
      </section>
    </div>
  );
}
