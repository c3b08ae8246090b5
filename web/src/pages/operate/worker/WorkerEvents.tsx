import { useQuery } from "@tanstack/react-query";
import type { Schemas } from "@/api/types";
import { type Column, Table, Time } from "@/design";
import { actorName } from "@/parts/actor-name";
import { Section } from "@/parts/Section";
import { workerTexts } from "@/texts/workers";
import { workerEventsQuery } from "./queries";

type Event = Schemas["WorkerEvent"];
const texts = workerTexts.events;

const COLUMNS: readonly Column<Event>[] = [
  { name: texts.at, cell: (event) => <Time at={event.at} className="whitespace-nowrap" /> },
  { name: texts.event, cell: (event) => <code>{event.event}</code> },
  {
    name: texts.actor,
    className: "max-sm:hidden",
    cell: (event) => <span className="[overflow-wrap:anywhere]">{actorName(event)}</span>,
  },
  { name: texts.dispatch, right: true, cell: (event) => event.dispatch_id ?? "–" },
];

/** Recent events of the worker. */
export function WorkerEvents({ id }: { id: string }) {
  const { data } = useQuery(workerEventsQuery(id));
  if (data === undefined || data.items.length === 0) return null;
  return (
    <Section hasTable title={texts.title}>
      <Table label={texts.title} rows={data.items} columns={COLUMNS} rowKey={(event) => event.id} />
    </Section>
  );
}
