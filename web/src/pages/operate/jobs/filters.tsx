import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { metricsQuery } from "@/api/queries";
import { ChoiceFilter } from "@/parts/ChoiceFilter";
import type { AllJobsSearch } from "@/parts/job/all-jobs-filters";
import { workersQuery } from "@/parts/worker/queries";
import { allJobsTexts as texts } from "@/texts/all-jobs";
import { tenantsQuery } from "./queries";

// Names change seldom. The pages that use these queries refetch more often.
const SELDOM = { refetchInterval: false, staleTime: 60_000 } as const;

type Change = (part: Partial<AllJobsSearch>) => void;

/** Functions that change the filters in the URL. */
export function useFilters(): { change: Change; clear: () => void } {
  const navigate = useNavigate({ from: "/operate/jobs" });
  return {
    change: (part) => void navigate({ search: (now) => ({ ...now, ...part }), replace: true }),
    clear: () => void navigate({ search: {}, replace: true }),
  };
}

interface Props {
  search: AllJobsSearch;
  change: Change;
  className: string;
}

export function WorkflowFilter({ search, change, className }: Props) {
  const { data } = useQuery({ ...metricsQuery, ...SELDOM });
  return (
    <ChoiceFilter
      label={texts.workflowLabel}
      any={texts.anyWorkflow}
      className={className}
      value={search.workflow}
      choices={(data?.workflows ?? []).map(({ workflow }) => ({ value: workflow, label: workflow }))}
      onChange={(workflow) => change({ workflow })}
    />
  );
}

export function TenantFilter({ search, change, className }: Props) {
  const { data } = useQuery(tenantsQuery);
  return (
    <ChoiceFilter
      label={texts.tenantLabel}
      any={texts.anyTenant}
      className={className}
      value={search.tenant}
      choices={(data?.items ?? []).map((tenant) => ({ value: tenant.id, label: tenant.slug }))}
      onChange={(tenant) => change({ tenant })}
    />
  );
}

export function WorkerFilter({ search, change, className }: Props) {
  const { data } = useInfiniteQuery({ ...workersQuery("all"), ...SELDOM });
  const workers = (data?.pages ?? []).flatMap((page) => page.items);
  return (
    <ChoiceFilter
      label={texts.workerLabel}
      any={texts.anyWorker}
      className={className}
      value={search.worker}
      choices={workers.map(({ worker_id, display_name }) => ({ value: worker_id, label: display_name || worker_id }))}
      onChange={(worker) => change({ worker })}
    />
  );
}
