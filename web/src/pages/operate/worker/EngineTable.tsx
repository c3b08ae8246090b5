import type { Schemas } from "@/api/types";
import { type Column, duration, Table, Time } from "@/design";
import { Section } from "@/parts/Section";
import { workerTexts } from "@/texts/workers";

const texts = workerTexts.engineUse;
const percent = new Intl.NumberFormat("en", { style: "percent", maximumFractionDigits: 0 });

const COLUMNS: readonly Column<Schemas["EngineUse"]>[] = [
  {
    name: texts.engine,
    className: "w-full",
    cell: (engine) => <span className="font-[550] [overflow-wrap:anywhere]">{engine.name}</span>,
  },
  { name: texts.places, right: true, cell: (engine) => engine.slots },
  {
    name: texts.idle,
    right: true,
    cell: (engine) =>
      engine.idle_share == null ? (
        <span className="whitespace-nowrap text-muted">{texts.noJobs}</span>
      ) : (
        percent.format(engine.idle_share)
      ),
  },
  {
    name: texts.measured,
    right: true,
    className: "whitespace-nowrap max-sm:hidden",
    cell: (engine) => duration(engine.measured_seconds),
  },
];

/** Idle share of each engine in the last hour, measured by the agent. */
export function EngineTable({ worker }: { worker: Schemas["WorkerDetails"] }) {
  const engines = worker.engine_use ?? [];
  if (engines.length === 0) return null;
  return (
    <Section hasTable title={texts.title}>
      <Table label={texts.title} rows={engines} columns={COLUMNS} rowKey={(engine) => engine.name} />
      {worker.engine_use_at && (
        <p className="mt-2 text-s text-muted">
          {texts.reported} <Time at={worker.engine_use_at} />
        </p>
      )}
    </Section>
  );
}
