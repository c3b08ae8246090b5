import { Badge } from "@/design";
import { budgetsTexts, ownBudgetsTexts } from "@/texts/budgets";

/** Whether jobs still fit into a budget. */
export function BudgetState({ isWarned, isReached }: { isWarned: boolean; isReached: boolean }) {
  if (isReached) return <Badge tone="bad">{budgetsTexts.reached}</Badge>;
  if (isWarned) return <Badge tone="warn">{budgetsTexts.nearly}</Badge>;
  return <Badge tone="ok">{ownBudgetsTexts.hasRoom}</Badge>;
}
