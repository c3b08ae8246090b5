import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { metricsQuery } from "@/api/queries";
import type { Choice } from "@/design";
import type { AllJobsSearch } from "@/parts/job/all-jobs-filters";
import { workersQuery } from "@/parts/worker/queries";
import { allJobsTexts } from "@/texts/all-jobs";
import { tenantsQuery } from "./queries";

export const ANY = "any";
// Names change seldom. The pages that use these queries refetch more often.
const SELDOM = { refetchInterval: false, staleTime: 60_000 } as const;

/** Choices of the filters. A value in the URL that is unknown is also a choice. */
export function useChoices(search: AllJobsSearch) {
  const metrics = useQuery({ ...metricsQuery, ...SELDOM });
  const tenants = useQuery(tenantsQuery);
  const workers = useInfiniteQuery({ ...workersQuery("all"), ...SELDOM });
  const workflows = (metrics.data?.workflows ?? []).map(({ workflow }) => ({ value: workflow, label: workflow }));
  return {
    workflows: withAny(allJobsTexts.anyWorkflow, workflows, search.workflow),
    tenants: withAny(
      allJobsTexts.anyTenant,
      (tenants.data?.items ?? []).map((tenant) => ({ value: tenant.id, label: tenant.slug })),
      search.tenant,
    ),
    workers: withAny(
      allJobsTexts.anyWorker,
      (workers.data?.pages ?? [])
        .flatMap((page) => page.items)
        .map((worker) => ({ value: worker.worker_id, label: worker.display_name || worker.worker_id })),
      search.worker,
    ),
  };
}

function withAny(label: string, known: readonly Choice[], chosen: string | undefined): Choice[] {
  const other = chosen && !known.some((each) => each.value === chosen) ? [{ value: chosen, label: chosen }] : [];
  return [{ value: ANY, label }, ...known, ...other];
}
