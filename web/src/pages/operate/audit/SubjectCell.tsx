import { Link } from "@tanstack/react-router";
import { ArrowUpRight } from "lucide-react";
import { auditTexts as texts } from "@/texts/audit";
import { pageOf, subjectName } from "./entries";
import { Only } from "./Only";
import type { AuditEntry } from "./queries";

/** The changed object. Its name filters by it, and the arrow opens its page. */
export function SubjectCell({ entry }: { entry: AuditEntry }) {
  const name = subjectName(entry);
  const page = pageOf(entry);
  return (
    <>
      <span className="inline-flex items-center gap-1">
        <Only
          isWhole={!entry.subject_name}
          search={{ type: entry.subject_type, subject: entry.subject_id }}
          label={texts.onlySubject(name)}
        >
          {name}
        </Only>
        {page && (
          <Link
            {...page}
            aria-label={texts.open(name)}
            title={texts.open(name)}
            className="grid size-6 shrink-0 place-items-center rounded-s text-muted hover:bg-hover hover:text-text touch:size-10"
          >
            <ArrowUpRight size={14} aria-hidden />
          </Link>
        )}
      </span>
      <span className="block text-muted" title={entry.subject_id}>
        {entry.subject_type.replaceAll("_", " ")}
      </span>
    </>
  );
}
