// Search parameters of a run's URL: the tab, the step, the selected candidate. Pure.
import type { Schemas } from "@/api/types";

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

export function readSearch(search: Record<string, unknown>): RunSearch {
  const tab = RUN_TABS.find((each) => each === search.tab);
  return {
    tab: tab === "tree" ? undefined : tab,
    step: text(search.step),
    candidate: text(search.candidate),
    status: search.status === "active" || search.status === "rejected" ? search.status : undefined,
  };
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" && value.length <= 100 ? value : undefined;
}

type Steps = readonly Pick<Schemas["StepProgress"], "step" | "active">[];

/** The compared step: the one of the URL, otherwise the last one with two candidates. */
export function comparedStep(steps: Steps, wanted: string | undefined): string | undefined {
  if (steps.some(({ step }) => step.slug === wanted)) return wanted;
  return (steps.findLast(({ active }) => active > 1) ?? steps.at(-1))?.step.slug;
}
