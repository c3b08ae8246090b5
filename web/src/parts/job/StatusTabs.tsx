import { classes } from "@/design";
import { useRevealed } from "@/design/useRevealed";
import { jobsTexts } from "@/texts/jobs";

const compact = new Intl.NumberFormat("en", { notation: "compact" });

interface Props<Status extends string> {
  /** Names of the statuses, in the order of the tabs. */
  statuses: Readonly<Record<Status | "all", string>>;
  /** Number of jobs per status, once it is known. */
  counts: Readonly<Record<Status | "all", number>> | null;
  /** There are more jobs than were counted. */
  isPartial?: boolean;
  /** Default: all. */
  chosen: Status | undefined;
  onChange: (status: Status | undefined) => void;
}

/** Statuses with their number of jobs. */
export function StatusTabs<Status extends string>({ statuses, counts, isPartial, chosen, onChange }: Props<Status>) {
  const list = useRevealed<HTMLDivElement>("[aria-pressed=true]", chosen ?? "all");
  return (
    <div
      ref={list}
      role="group"
      aria-label={jobsTexts.statusLabel}
      className="-mx-4 flex gap-0.5 overflow-x-auto border-b px-4 md:mx-0 md:px-0 lg:gap-1"
    >
      {(Object.keys(statuses) as (Status | "all")[]).map((status) => (
        <button
          key={status}
          type="button"
          aria-pressed={(chosen ?? "all") === status}
          onClick={() => onChange(status === "all" ? undefined : (status as Status))}
          className={classes(
            "-mb-px flex min-h-10 touch:min-h-11 items-center gap-1.5 border-b-2 px-2 lg:gap-2 lg:px-3 whitespace-nowrap transition-colors duration-100 focus-visible:outline-offset-[-2px]",
            (chosen ?? "all") === status ? "border-accent font-[550]" : "border-transparent text-muted hover:text-text",
          )}
        >
          {statuses[status]}
          {counts && !(counts[status] === 0 && isPartial) && (
            <span className="num rounded-full bg-hover px-1.5 text-xs font-medium text-muted">
              {compact.format(counts[status]) + (isPartial ? "+" : "")}
            </span>
          )}
        </button>
      ))}
    </div>
  );
}
