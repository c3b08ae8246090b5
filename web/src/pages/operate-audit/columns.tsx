import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { Time, type Column } from "@/design";
import { auditTexts as texts } from "@/texts/audit";
import { actorName, detailsOf } from "./entries";
import type { AuditSearch } from "./filters";
import type { AuditEntry } from "./queries";

const WIDE = "max-lg:hidden";

export const COLUMNS: readonly Column<AuditEntry>[] = [
  { name: texts.columns.at, className: "max-sm:hidden", cell: (entry) => <Time at={entry.at} className="whitespace-nowrap text-muted" /> },
  {
    name: texts.columns.actor,
    className: "max-sm:hidden",
    cell: (entry) => (
      <Only search={{ actor: entry.actor_email ?? entry.actor }} label={texts.onlyActor(actorName(entry))}>
        {actorName(entry)}
      </Only>
    ),
  },
  {
    name: texts.columns.action,
    cell: (entry) => (
      <>
        <Only search={{ action: entry.action }} label={texts.onlyAction(entry.action)}>
          <code>{entry.action}</code>
        </Only>
        <span className="mt-0.5 block text-muted [overflow-wrap:anywhere] sm:hidden">
          {actorName(entry)}
          <Time at={entry.at} className="block" />
        </span>
      </>
    ),
  },
  {
    name: texts.columns.subject,
    cell: (entry) => (
      <>
        <Only search={{ type: entry.subject_type, subject: entry.subject_id }} label={texts.onlySubject(entry.subject_name ?? entry.subject_id)}>
          {entry.subject_name ?? entry.subject_id}
        </Only>
        <span className="block text-muted">{entry.subject_type.replaceAll("_", " ")}</span>
      </>
    ),
  },
  {
    name: texts.columns.tenant,
    className: WIDE,
    cell: (entry) =>
      entry.tenant_id && (
        <Only search={{ tenant: entry.tenant_id }} label={texts.onlyTenant(entry.tenant ?? entry.tenant_id)}>
          {entry.tenant ?? entry.tenant_id}
        </Only>
      ),
  },
  { name: texts.columns.details, className: WIDE, cell: (entry) => <span className="text-muted [overflow-wrap:anywhere]">{detailsOf(entry)}</span> },
];

/** A link that adds one filter to those that are set. */
function Only({ search, label, children }: { search: AuditSearch; label: string; children: ReactNode }) {
  return (
    <Link
      to="/operate/audit"
      search={(before) => ({ ...before, ...search })}
      title={label}
      className="underline decoration-line-strong underline-offset-3 [overflow-wrap:anywhere] hover:decoration-text"
    >
      {children}
    </Link>
  );
}
