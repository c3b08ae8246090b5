// Describes the filter of a bulk action in words, and as the URL of the list. Pure.
import type { Schemas } from "@/api/types";
import { absoluteMinute } from "@/design/times";
import type { AllJobsSearch, StatusFilter } from "@/parts/job/all-jobs-filters";
import { STATUSES } from "@/parts/job/statuses";
import { allJobsTexts } from "@/texts/all-jobs";
import { statusTexts } from "@/texts/states";

type Filter = Schemas["JobFilter"];

export function wordsOf(filter: Filter): string {
  if (filter.job_id?.length) return allJobsTexts.namedJobs(filter.job_id.length);
  const parts = [
    ...(filter.status ?? []).map((status) => statusTexts[status]),
    ...(filter.workflow ?? []),
    ...(filter.effect ?? []),
    ...(filter.kind ?? []),
    filter.q && `“${filter.q}”`,
    filter.tenant_id && `${allJobsTexts.tenantLabel} …${filter.tenant_id.slice(-6)}`,
    filter.user_id && allJobsTexts.ofUser(`…${filter.user_id.slice(-6)}`),
    filter.run_id && allJobsTexts.ofRun(`…${filter.run_id.slice(-6)}`),
    filter.worker_id && `${allJobsTexts.workerLabel} ${filter.worker_id}`,
    filter.fingerprint && allJobsTexts.ofError(filter.fingerprint),
    rangeWords(filter.created_from ?? undefined, filter.created_to ?? undefined),
  ].filter(Boolean);
  return parts.join(" · ") || allJobsTexts.everyJob;
}

/** The time range in the reader's zone; null without times. */
export function rangeWords(from: string | undefined, until: string | undefined): string | null {
  if (from && until) return allJobsTexts.between(absoluteMinute(new Date(from)), absoluteMinute(new Date(until)));
  if (from) return allJobsTexts.since(absoluteMinute(new Date(from)));
  return until ? allJobsTexts.before(absoluteMinute(new Date(until))) : null;
}

/** The list with the same filter; null for selected jobs, because a filter cannot describe them. */
export function searchOf(filter: Filter): AllJobsSearch | null {
  if (filter.job_id?.length) return null;
  const statuses = Object.entries(STATUSES) as [Exclude<StatusFilter, "all">, readonly string[]][];
  return {
    q: filter.q ?? undefined,
    status: statuses.find(
      ([, values]) =>
        (filter.status ?? []).length > 0 && (filter.status ?? []).every((status) => values.includes(status)),
    )?.[0],
    tenant: filter.tenant_id ?? undefined,
    user: filter.user_id ?? undefined,
    run: filter.run_id ?? undefined,
    workflow: filter.workflow?.[0],
    effect: filter.effect?.[0],
    kind: filter.kind?.[0],
    worker: filter.worker_id ?? undefined,
    error: filter.fingerprint ?? undefined,
    from: filter.created_from ?? undefined,
    until: filter.created_to ?? undefined,
  };
}
