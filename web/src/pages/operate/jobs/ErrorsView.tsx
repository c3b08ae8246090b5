import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { CircleCheck } from "lucide-react";
import type { Schemas } from "@/api/types";
import { type Column, Empty, formatNumber, Table, Time } from "@/design";
import type { AllJobsSearch } from "@/parts/job/all-jobs-filters";
import { Pending } from "@/parts/Pending";
import { allJobsTexts } from "@/texts/all-jobs";
import { TenantFilter, useFilters, WorkflowFilter } from "./filters";
import { errorGroupsQuery } from "./queries";
import { TimeRange } from "./TimeRange";

type Group = Schemas["ErrorGroup"];
const SIZE = "w-auto! min-w-36 max-w-56 max-sm:max-w-none! max-sm:grow max-sm:basis-[calc(50%-0.25rem)]";

/** Errors in groups, the most frequent first. A group links to its jobs. */
export function ErrorsView({ search }: { search: AllJobsSearch }) {
  const query = useQuery(errorGroupsQuery(search));
  const { change } = useFilters();
  return (
    <>
      <p className="mb-4 text-muted">{allJobsTexts.errorsText}</p>
      <div className="mb-4 flex flex-wrap gap-2">
        <TimeRange className={SIZE} search={search} unset={allJobsTexts.newestDay} onChange={change} />
        <WorkflowFilter search={search} change={change} className={SIZE} />
        <TenantFilter search={search} change={change} className={SIZE} />
      </div>
      {!query.data ? (
        <Pending query={query} className="h-64" />
      ) : query.data.items.length === 0 ? (
        <Empty icon={<CircleCheck size={20} />} title={allJobsTexts.noErrors} text={allJobsTexts.noErrorsText} />
      ) : (
        <>
          <Table
            label={allJobsTexts.errors}
            rows={query.data.items}
            rowKey={(group) => group.fingerprint}
            columns={columnsOf(search)}
          />
          {query.data.is_partial && <p className="mt-3 text-s text-muted">{allJobsTexts.errorsPartial}</p>}
        </>
      )}
    </>
  );
}

const texts = allJobsTexts.errorColumns;

function columnsOf(search: AllJobsSearch): Column<Group>[] {
  return [
    {
      name: texts.error,
      className: "w-full min-w-48",
      cell: (group) => (
        <Link
          to="/operate/jobs"
          search={{ error: group.fingerprint, tenant: search.tenant, workflow: search.workflow }}
          className="block rounded-s hover:underline"
        >
          <span className="line-clamp-2 font-[550] break-words">{group.example.message}</span>
          <span className="text-xs text-muted">{group.example.type}</span>
        </Link>
      ),
    },
    { name: texts.jobs, right: true, cell: (group) => formatNumber(group.jobs) },
    { name: texts.tenants, right: true, className: "max-lg:hidden", cell: (group) => formatNumber(group.tenants) },
    {
      name: texts.workflow,
      className: "max-lg:hidden",
      cell: (group) => (
        <span className="block max-w-44 truncate 2xl:max-w-72" title={group.example.workflow}>
          {group.example.workflow}
        </span>
      ),
    },
    {
      name: texts.first,
      right: true,
      className: "max-lg:hidden",
      cell: (group) => <Time at={group.first_seen_at} className="whitespace-nowrap" />,
    },
    {
      name: texts.last,
      right: true,
      className: "max-sm:hidden",
      cell: (group) => <Time at={group.last_seen_at} className="whitespace-nowrap" />,
    },
  ];
}
