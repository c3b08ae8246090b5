import { Link } from "@tanstack/react-router";
import { ArrowLeft } from "lucide-react";
import type { ReactNode } from "react";
import { type List, rememberedSearch } from "./list-search";

interface Props {
  to: List;
  label: string;
  /** Other content above the title, such as a badge. */
  children?: ReactNode;
}

/** Link from the page of one thing to its list, with the filters that the list had. */
export function BackLink({ to, label, children }: Props) {
  return (
    <span className="flex flex-wrap items-center gap-x-3 gap-y-1">
      {/* Each list reads its own parameters and ignores invalid values. */}
      <Link
        to={to}
        search={rememberedSearch(to) as never}
        className="inline-flex min-h-8 items-center gap-1.5 text-s text-muted hover:text-text touch:min-h-11"
      >
        <ArrowLeft size={14} aria-hidden />
        {label}
      </Link>
      {children}
    </span>
  );
}
