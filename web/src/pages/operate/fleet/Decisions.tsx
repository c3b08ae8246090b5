import { useQuery } from "@tanstack/react-query";
import type { Schemas } from "@/api/types";
import { type Column, Table, Time } from "@/design";
import { Section } from "@/parts/Section";
import { fleetTexts } from "@/texts/fleets";
import { decisionsQuery } from "./queries";

type Decision = Schemas["ScalingDecision"];
const texts = fleetTexts.decisions;

const COLUMNS: readonly Column<Decision>[] = [
  { name: texts.at, cell: (decision) => <Time at={decision.at} className="whitespace-nowrap" /> },
  { name: texts.wanted, right: true, cell: (decision) => decision.wanted },
  { name: texts.serving, right: true, className: "max-sm:hidden", cell: (decision) => decision.serving },
  { name: texts.queued, right: true, className: "max-sm:hidden", cell: (decision) => decision.queued_jobs },
  { name: texts.reason, cell: (decision) => <span className="[overflow-wrap:anywhere]">{decision.reason}</span> },
];

/** Decisions of the autoscaler with their reasons, newest first. */
export function Decisions({ fleetId }: { fleetId: number }) {
  const { data } = useQuery(decisionsQuery(fleetId));
  if (data === undefined) return null;
  return (
    <Section hasTable title={texts.title}>
      {data.items.length === 0 ? (
        <p className="text-muted">{texts.none}</p>
      ) : (
        <Table label={texts.title} rows={data.items} columns={COLUMNS} rowKey={(decision) => decision.id} />
      )}
    </Section>
  );
}
