import { type Column, Time } from "@/design";
import { actorName } from "@/parts/actor-name";
import { auditTexts as texts } from "@/texts/audit";
import { detailsOf } from "./entries";
import { Only } from "./Only";
import type { AuditEntry } from "./queries";
import { SubjectCell } from "./SubjectCell";

const WIDE = "max-lg:hidden";

export const COLUMNS: readonly Column<AuditEntry>[] = [
  {
    name: texts.columns.at,
    className: WIDE,
    cell: (entry) => <Time at={entry.at} className="whitespace-nowrap text-muted" />,
  },
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
    className: "xl:min-w-64",
    cell: (entry) => <SubjectCell entry={entry} />,
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
  {
    name: texts.columns.details,
    className: WIDE,
    cell: (entry) => <span className="text-muted [overflow-wrap:anywhere]">{detailsOf(entry)}</span>,
  },
];
