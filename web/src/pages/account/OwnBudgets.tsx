import { useQuery } from "@tanstack/react-query";
import type { Schemas } from "@/api/types";
import { BudgetBar } from "@/parts/budget/BudgetBar";
import { BudgetState } from "@/parts/budget/BudgetState";
import { resetText } from "@/parts/budget/reset";
import { useNow } from "@/parts/useNow";
import { budgetsTexts, ownBudgetsTexts as texts } from "@/texts/budgets";
import { ownBudgetsQuery } from "./queries";

type OwnBudget = Schemas["OwnBudget"];

/** The budgets that limit this user; nothing if there are none. */
export function OwnBudgets() {
  const { data } = useQuery(ownBudgetsQuery);
  if (!data || data.budgets.length === 0) return null;
  return (
    <section aria-label={texts.title}>
      <h2>{texts.title}</h2>
      <p className="mb-3 max-w-prose text-muted">{texts.text}</p>
      <ul className="panel divide-y">
        {data.budgets.map((budget) => (
          <Row key={budget.id} budget={budget} />
        ))}
      </ul>
    </section>
  );
}

function Row({ budget }: { budget: OwnBudget }) {
  const now = useNow(60_000);
  const { limit, taken, left, is_warned: isWarned } = budget;
  const isReached = budget.is_reached || left === 0;
  return (
    <li className="grid grid-cols-[minmax(0,1fr)_auto] items-center gap-x-6 gap-y-3 px-4 py-3.5 lg:grid-cols-[minmax(0,1fr)_minmax(260px,1fr)_minmax(110px,auto)]">
      <span className="min-w-0">
        <span className="block font-[550] [overflow-wrap:anywhere]">{budget.name}</span>
        <span className="block text-s text-muted [overflow-wrap:anywhere]">{countedJobs(budget)}</span>
      </span>
      <span className="max-lg:order-1 max-lg:col-span-2">
        {limit == null || taken == null || left == null ? (
          <span className="text-xs text-muted">{resetText(budget, new Date(now))}</span>
        ) : (
          <BudgetBar budget={{ ...budget, limit, taken, left }} isWarned={isWarned} isReached={isReached} />
        )}
      </span>
      <span className="lg:justify-self-end">
        <BudgetState isWarned={isWarned} isReached={isReached} />
      </span>
    </li>
  );
}

function countedJobs({ is_shared, key, provider, period }: OwnBudget): string {
  const jobs = is_shared ? texts.shared : key ? texts.key(key) : texts.you;
  return [jobs, ...(provider ? [budgetsTexts.onProvider(provider)] : []), budgetsTexts.every[period]].join(", ");
}
