import { formatNumber, Progress } from "@/design";
import { useNow } from "@/parts/useNow";
import { budgetsTexts as texts } from "@/texts/budgets";
import { resetText } from "./reset";

interface Props {
  budget: { name: string; limit: number; taken: number; left: number; resets_at: string; time_zone: string };
  isWarned: boolean;
  isReached: boolean;
}

/** How much of a budget is taken, and when it resets. */
export function BudgetBar({ budget, isWarned, isReached }: Props) {
  const now = useNow(60_000);
  const { name, limit, taken, left } = budget;
  return (
    <span className="grid min-w-0 gap-1.5">
      <span className="num flex flex-wrap justify-between gap-x-4 text-s">
        <span>{texts.taken(formatNumber(taken), formatNumber(limit))}</span>
        <span className="text-muted">{texts.left(formatNumber(left))}</span>
      </span>
      <Progress
        percent={limit === 0 ? 100 : (taken / limit) * 100}
        label={texts.takenOf(name)}
        tone={isReached ? "bad" : isWarned ? "warn" : "run"}
      />
      <span className="text-xs text-muted">{resetText(budget, new Date(now))}</span>
    </span>
  );
}
