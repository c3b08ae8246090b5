// Search parameters of a run's URL: the tab, the step, the selected candidate. Pure.
import type { Schemas } from "@/api/types";
import { matching, oneOf } from "@/parts/search-params";

export const RUN_TABS = ["tree", "gallery", "compare", "gates", "winners", "budget"] as const;
export type RunTab = (typeof RUN_TABS)[number];

export interface RunSearch {
  /** Default: the tree. */
  tab?: Exclude<RunTab, "tree">;
  /** Slug of a step, for the gallery and for comparing. */
  step?: string;
  /** Id of the selected candidate. */
  candidate?: string;
  status?: Schemas["CandidateStatus"];
}

const NAME = /^.{1,100}$/;

export function readSearch(search: Record<string, unknown>): RunSearch {
  const tab = oneOf(search.tab, RUN_TABS);
  return {
    tab: tab === "tree" ? undefined : tab,
    step: matching(search.step, NAME),
    candidate: matching(search.candidate, NAME),
    status: oneOf(search.status, ["active", "rejected"] as const),
  };
}

type Steps = readonly Pick<Schemas["StepProgress"], "step" | "active">[];

/** The compared step: the one of the URL, otherwise the last one with two candidates. */
export function comparedStep(steps: Steps, wanted: string | undefined): string | undefined {
  if (steps.some(({ step }) => step.slug === wanted)) return wanted;
  return (steps.findLast(({ active }) => active > 1) ?? steps.at(-1))?.step.slug;
}
