// How many more candidates a run is offered to make, and what they cost by what it has spent. Pure.
import type { Schemas } from "@/api/types";

type Spent = Pick<Schemas["RunSummary"], "spent" | "leaves" | "target_leaves" | "budget">;

/** Rounded up; null where no candidate has finished yet. */
export function tokensPerLeaf({ spent, leaves }: Pick<Spent, "spent" | "leaves">): number | null {
  return leaves === 0 ? null : Math.ceil(spent / leaves);
}

/** As many again, with a budget that is enough for them. */
export function suggestedMore(run: Spent): { target: number; budget: number } {
  const target = run.target_leaves * 2;
  const missing = Math.max(0, target - run.leaves);
  return { target, budget: Math.max(run.budget, run.spent + missing * (tokensPerLeaf(run) ?? 0)) };
}
