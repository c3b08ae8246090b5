import { absoluteTime, type Column, CopyButton, Table } from "@/design";
import { actorName } from "@/parts/actor-name";
import { titleOf } from "@/parts/job/events";
import { operatorJobTexts as texts } from "@/texts/operator-job";
import { logSearch, type OperatorEvent } from "./log-search";
import { RequestId } from "./RequestId";

// A phone has no room for columns. There the change has the other values in lines below it.
const WIDE = "max-lg:hidden";
const at = (event: OperatorEvent) => <time dateTime={event.at}>{absoluteTime(new Date(event.at))}</time>;

const COLUMNS: readonly Column<OperatorEvent>[] = [
  { name: texts.eventColumns.at, className: `${WIDE} whitespace-nowrap`, cell: at },
  {
    name: texts.eventColumns.change,
    className: "lg:whitespace-nowrap",
    cell: (event) => (
      <>
        {titleOf(event)}
        <span className="mt-0.5 block text-muted [overflow-wrap:anywhere] lg:hidden">
          {at(event)}
          <span className="block">{actorName(event)}</span>
          {event.reason && <span className="mt-1 block text-text">{event.reason}</span>}
          {event.request_id && <RequestId id={event.request_id} className="max-w-full" />}
        </span>
      </>
    ),
  },
  {
    name: texts.eventColumns.actor,
    className: WIDE,
    cell: (event) => (
      <span className="block min-w-44 [overflow-wrap:anywhere] 2xl:whitespace-nowrap">{actorName(event)}</span>
    ),
  },
  {
    name: texts.eventColumns.reason,
    className: `${WIDE} w-full`,
    cell: (event) => <span className="[overflow-wrap:anywhere]">{event.reason ?? "–"}</span>,
  },
  {
    name: texts.eventColumns.request,
    className: WIDE,
    cell: (event) => (event.request_id ? <RequestId id={event.request_id} className="max-w-60" /> : "–"),
  },
];

export function EventsTab({ jobId, events }: { jobId: string; events: readonly OperatorEvent[] }) {
  const search = logSearch(jobId, events);
  return (
    <div className="grid gap-4">
      <Table label={texts.events} rows={events} columns={COLUMNS} rowKey={(event) => event.seq} />
      <section aria-labelledby="log-lines" className="panel grid gap-2 p-4 sm:p-5">
        <h2 id="log-lines">{texts.logs}</h2>
        <p className="max-w-[75ch] text-s text-muted">{texts.logsText}</p>
        <p className="flex items-start gap-2">
          <code className="min-w-0 py-2 [overflow-wrap:anywhere]">{search}</code>
          <CopyButton text={search} label={texts.copySearch} />
        </p>
        <p className="max-w-[75ch] text-s text-muted">{texts.logsElsewhere}</p>
      </section>
    </div>
  );
}
