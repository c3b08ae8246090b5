import { Link } from "@tanstack/react-router";
import { ChevronRight } from "lucide-react";
import type { AllJobsSearch } from "@/parts/job/all-jobs-filters";
import type { WorkersSearch } from "@/parts/worker/views";

type Props = {
  /** Target of the link in words, because a number alone says nothing to a screen reader. */
  label: string;
  children: string;
  /** The whole panel is clickable. A panel has at most one such link. */
  isWhole?: boolean;
} & ({ to: "/operate/jobs"; search: AllJobsSearch } | { to: "/operate/workers"; search: WorkersSearch });

/** A figure that links to its list. */
export function FigureLink({ label, children, isWhole = false, ...place }: Props) {
  const look = isWhole
    ? "after:absolute after:inset-0 after:rounded-m hover:underline"
    : "relative z-1 underline decoration-line-strong underline-offset-3 hover:decoration-text";
  const shared = { "aria-label": `${children}: ${label}`, title: label, className: `underline-offset-3 ${look}` };
  const content = (
    <>
      {children}
      {isWhole && (
        <ChevronRight size={16} strokeWidth={1.8} aria-hidden className="absolute top-5 right-3.5 text-muted" />
      )}
    </>
  );
  return place.to === "/operate/jobs" ? (
    <Link to={place.to} search={place.search} {...shared}>
      {content}
    </Link>
  ) : (
    <Link to={place.to} search={place.search} {...shared}>
      {content}
    </Link>
  );
}
