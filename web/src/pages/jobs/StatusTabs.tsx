import { useQuery } from "@tanstack/react-query";
import { classes } from "@/design";
import { useRevealed } from "@/design/useRevealed";
import { countsOf, type JobsSearch, STATUS_FILTERS } from "@/parts/job/filters";
import { jobsTexts } from "@/texts/jobs";
import { countsQuery } from "./queries";

const numbers = new Intl.NumberFormat("en", { notation: "compact" });

/** Statuses with their number of jobs. */
export function StatusTabs({
  search,
  onChange,
}: {
  search: JobsSearch;
  onChange: (status: JobsSearch["status"]) => void;
}) {
  const { data } = useQuery(countsQuery(search));
  const counts = data ? countsOf(data.by_status) : null;
  const chosen = search.status ?? "all";
  const list = useRevealed<HTMLDivElement>("[aria-pressed=true]", chosen);
  return (
    <div
      ref={list}
      role="group"
      aria-label={jobsTexts.statusLabel}
      className="-mx-4 flex gap-0.5 overflow-x-auto border-b px-4 md:mx-0 md:px-0 lg:gap-1"
    >
      {STATUS_FILTERS.map((status) => (
        <button
          key={status}
          type="button"
          aria-pressed={chosen === status}
          onClick={() => onChange(status === "all" ? undefined : status)}
          className={classes(
            "-mb-px flex min-h-10 touch:min-h-11 items-center gap-1.5 border-b-2 px-2 lg:gap-2 lg:px-3 whitespace-nowrap transition-colors duration-100 focus-visible:outline-offset-[-2px]",
            chosen === status ? "border-accent font-[550]" : "border-transparent text-muted hover:text-text",
          )}
        >
          {jobsTexts.statuses[status]}
          {counts && (
            <span className="num rounded-full bg-hover px-1.5 text-xs font-medium text-muted">
              {numbers.format(counts[status]) + (data?.is_partial ? "+" : "")}
            </span>
          )}
        </button>
      ))}
    </div>
  );
}
