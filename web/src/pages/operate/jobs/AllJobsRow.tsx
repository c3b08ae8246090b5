import { Link } from "@tanstack/react-router";
import { memo } from "react";
import { classes, formatTokens, StatusBadge, Time } from "@/design";
import type { AllJobsSearch } from "@/parts/job/all-jobs-filters";
import { RowBox, type RowPlace, VirtualRow } from "@/parts/job/VirtualJobList";
import { allJobsTexts } from "@/texts/all-jobs";
import type { OperatedJob } from "./actions";

// From xl on, the sidebar leaves room for two more columns. Below lg a row has lines instead of columns.
export const GRID =
  "lg:grid lg:grid-cols-[minmax(0,1fr)_12rem_6.5rem] lg:gap-4 xl:grid-cols-[minmax(0,1fr)_13rem_9rem_5.5rem_6.5rem]";

export function rowHeight(isNarrow: boolean): number {
  return isNarrow ? 96 : 64;
}

interface Props extends RowPlace {
  job: OperatedJob;
  height: number;
  search: AllJobsSearch;
  isSelected: boolean;
  /** null if the role may not change jobs. */
  onToggle: ((id: string) => void) | null;
}

export const AllJobsRow = memo(function AllJobsRow({ job, height, search, isSelected, onToggle, ...place }: Props) {
  return (
    <VirtualRow place={place} height={height} isSelected={isSelected}>
      {onToggle && (
        <RowBox name={`${job.title} ${job.id.slice(-6)}`} isSelected={isSelected} onToggle={() => onToggle(job.id)} />
      )}
      <div
        className={classes(
          "relative min-w-0 grow items-center pr-4 max-lg:grid max-lg:content-center max-lg:gap-0.5",
          GRID,
          onToggle ? "pl-2" : "pl-4",
        )}
      >
        <div className="min-w-0">
          <div className="flex min-w-0 items-center gap-2.5">
            <StatusBadge status={job.status} />
            {/* The link covers the row. Other links are above it. */}
            <Link
              to="/operate/jobs/$id"
              params={{ id: job.id }}
              preload={false}
              className="truncate font-[550] after:absolute after:inset-0 focus-visible:outline-none focus-visible:after:outline-2 focus-visible:after:outline-offset-[-2px] focus-visible:after:outline-accent"
            >
              {job.title}
            </Link>
            {job.priority !== 0 && <Note>{allJobsTexts.priority(job.priority)}</Note>}
            {job.charge_cycle > 1 && <Note>{allJobsTexts.cycle(job.charge_cycle)}</Note>}
          </div>
          <div className="mt-0.5 truncate text-s text-muted" title={job.error?.message}>
            {job.error ? job.error.message : <span className="num">{job.id}</span>}
          </div>
        </div>
        <Owner job={job} search={search} />
        <span className="truncate text-s max-xl:hidden" title={job.workflow}>
          {job.workflow}
        </span>
        <span className="num text-right text-s max-xl:hidden">{formatTokens(job.cost)}</span>
        <span className="num text-right text-s text-muted max-lg:absolute max-lg:right-4 max-lg:bottom-3">
          <Time at={job.submitted_at} className="whitespace-nowrap" />
        </span>
      </div>
    </VirtualRow>
  );
});

function Owner({ job, search }: { job: OperatedJob; search: AllJobsSearch }) {
  const user = job.user ?? allJobsTexts.deletedUser;
  const link = "relative z-1 block max-w-full truncate rounded-s leading-6 hover:text-text hover:underline";
  return (
    <div className="flex min-w-0 gap-2 text-s max-lg:pr-20 lg:grid lg:gap-0">
      <Link
        to="/operate/jobs"
        search={{ ...search, tenant: job.tenant_id }}
        title={allJobsTexts.onlyTenant(job.tenant)}
        className={classes(link, "justify-self-start")}
      >
        {job.tenant}
      </Link>
      <Link
        to="/operate/jobs"
        search={{ ...search, user: job.user_id }}
        title={allJobsTexts.onlyUser(user)}
        className={classes(link, "justify-self-start text-muted")}
      >
        {user}
      </Link>
    </div>
  );
}

function Note({ children }: { children: string }) {
  return <span className="shrink-0 rounded-full border px-2 text-xs text-muted max-sm:hidden">{children}</span>;
}
