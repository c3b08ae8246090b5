import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { classes, Time, type Column } from "@/design";
import { actorName } from "@/parts/actor-name";
import { auditTexts as texts } from "@/texts/audit";
import { detailsOf } from "./entries";
import type { AuditSearch } from "./filters";
import type { AuditEntry } from "./queries";

const WIDE = "max-lg:hidden";

export const COLUMNS: readonly Column<AuditEntry>[] = [
  { name: texts.columns.at, className: WIDE, cell: (entry) => <Time at={entry.at} className="whitespace-nowrap text-muted" /> },
  {
    name: texts.columns.actor,
    className: WIDE,
    cell: (entry) => (
      <Only isWhole search={{ actor: entry.actor_email ?? entry.actor }} label={texts.onlyActor(actorName(entry))}>
        {actorName(entry)}
      </Only>
    ),
  },
  {
    name: texts.columns.action,
    cell: (entry) => (
      <>
        <Only search={{ action: entry.action }} label={texts.onlyAction(entry.action)}>
          <code className="whitespace-nowrap">{entry.action}</code>
        </Only>
        <span className="mt-0.5 block text-muted [overflow-wrap:anywhere] lg:hidden">
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
        <Only isWhole={!entry.subject_name} search={{ type: entry.subject_type, subject: entry.subject_id }} label={texts.onlySubject(entry.subject_name ?? entry.subject_id)}>
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
        <Only isWhole search={{ tenant: entry.tenant_id }} label={texts.onlyTenant(entry.tenant ?? entry.tenant_id)}>
          {entry.tenant ?? entry.tenant_id}
        </Only>
      ),
  },
  { name: texts.columns.details, className: WIDE, cell: (entry) => <span className="text-muted [overflow-wrap:anywhere]">{detailsOf(entry)}</span> },
];

/** A link that adds one filter to those that are set. `isWhole`: what is not broken where there is room. */
function Only({ search, label, isWhole = false, children }: { search: AuditSearch; label: string; isWhole?: boolean; children: ReactNode }) {
  return (
    <Link
      to="/operate/audit"
      search={(before) => ({ ...before, ...search })}
      title={label}
      className={classes("underline decoration-line-strong underline-offset-3 [overflow-wrap:anywhere] hover:decoration-text", isWhole && "xl:whitespace-nowrap")}
    >
      {children}
    </Link>
  );
}
