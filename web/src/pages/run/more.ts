// Suggests how many more candidates a run makes, and their cost from its past spending. Pure.
import type { Schemas } from "@/api/types";

type Spent = Pick<Schemas["RunSummary"], "spent" | "leaves" | "target_leaves" | "budget">;

/** Tokens per finished candidate, rounded up; null before the first one. */
export function tokensPerLeaf({ spent, leaves }: Pick<Spent, "spent" | "leaves">): number | null {
  return leaves === 0 ? null : Math.ceil(spent / leaves);
}

/** As many candidates again, with a sufficient budget. */
export function suggestedMore(run: Spent): { target: number; budget: number } {
  const target = run.target_leaves * 2;
  const missing = Math.max(0, target - run.leaves);
  return { target, budget: Math.max(run.budget, run.spent + missing * (tokensPerLeaf(run) ?? 0)) };
}
