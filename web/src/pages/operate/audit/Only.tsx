import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { classes } from "@/design";
import type { AuditSearch } from "./filters";

interface Props {
  search: AuditSearch;
  label: string;
  /** Text that does not wrap if there is enough room. */
  isWhole?: boolean;
  children: ReactNode;
}

/** Link that adds one filter to the current ones. */
export function Only({ search, label, isWhole = false, children }: Props) {
  return (
    <Link
      to="/operate/audit"
      search={(before) => ({ ...before, ...search })}
      title={label}
      className={classes(
        "underline decoration-line-strong underline-offset-3 [overflow-wrap:anywhere] hover:decoration-text",
        isWhole && "xl:whitespace-nowrap",
      )}
    >
      {children}
    </Link>
  );
}
