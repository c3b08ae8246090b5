import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { meQuery } from "@/api/queries";
import type { Schemas } from "@/api/types";
import { formatNumber, formatTokens, Stat, Table } from "@/design";
import { Chart } from "@/design/Chart";
import { Pending } from "@/parts/Pending";
import { budgetTexts } from "@/texts/runs";
import { BudgetButton } from "./BudgetButton";
import { type Run, spendingQuery } from "./queries";

const count = (value: number) => formatNumber(Math.round(value));

export function BudgetTab({ run }: { run: Run }) {
  const { data: me } = useQuery(meQuery);
  const spending = useQuery(spendingQuery(run.id));
  if (!spending.data) return <Pending query={spending} className="h-80" />;
  const { used, held, left, budget, steps } = spending.data;
  return (
    <div className="grid gap-4">
      <div className="grid grid-cols-2 gap-4 lg:grid-cols-4">
        <Stat label={budgetTexts.used} value={formatNumber(used)} hint={budgetTexts.ofBudget(formatTokens(budget))} />
        <Stat label={budgetTexts.held} value={formatNumber(held)} />
        <Stat label={budgetTexts.left} value={formatNumber(left)} />
        <Stat
          label={budgetTexts.budget}
          value={formatNumber(budget)}
          hint={me && me.role !== "viewer" && run.status !== "canceled" ? <BudgetButton run={run} /> : undefined}
        />
      </div>
      <section className="panel p-4 pb-2">
        <h2 className="mb-2 text-m">{budgetTexts.chart}</h2>
        {used === 0 ? <p className="pb-3 text-muted">{budgetTexts.noneSpent}</p> : <Spent spending={spending.data} />}
      </section>
      {steps.length > 0 && (
        <Table
          label={budgetTexts.bySteps}
          rows={steps}
          rowKey={(row) => row.position}
          columns={[
            {
              name: budgetTexts.step,
              className: "w-full",
              cell: (row) => run.steps[row.position - 1]?.step.name ?? row.position,
            },
            { name: budgetTexts.jobs, right: true, cell: (row) => formatNumber(row.jobs) },
            { name: budgetTexts.tokens, right: true, cell: (row) => formatNumber(row.tokens) },
          ]}
        />
      )}
    </div>
  );
}

function Spent({ spending }: { spending: Schemas["Spending"] }) {
  const { parts, since, budget } = spending;
  const times = useMemo(
    () => [since, ...parts.map((part) => part.at)].map((at) => new Date(at).getTime() / 1000),
    [parts, since],
  );
  const lines = useMemo(
    () => [
      { label: budgetTexts.total, tone: "run" as const, values: [0, ...parts.map((part) => part.total)] },
      {
        label: budgetTexts.budget,
        tone: "warn" as const,
        isDashed: true,
        values: [budget, ...parts.map(() => budget)],
      },
    ],
    [parts, budget],
  );
  return <Chart label={budgetTexts.chart} times={times} format={count} lines={lines} height={220} />;
}
