// Filters of the audit log, in the form of the URL and of the page. Pure.
import { utcOf } from "@/parts/local-times";
import { text } from "@/parts/search-params";

export interface AuditSearch {
  /** E-mail address, or an actor as the log names it. */
  actor?: string;
  action?: string;
  /** Type and id of the object. */
  type?: string;
  subject?: string;
  /** Id of a tenant. */
  tenant?: string;
  /** Times in UTC. */
  since?: string;
  until?: string;
}

const TEXTS = ["actor", "action", "type", "subject", "tenant"] as const;
const TIMES = ["since", "until"] as const;

export function validAuditSearch(search: Record<string, unknown>): AuditSearch {
  const texts = TEXTS.map((name) => [name, text(search[name])]);
  const times = TIMES.map((name) => [name, typeof search[name] === "string" ? utcOf(search[name]) : undefined]);
  return Object.fromEntries([...texts, ...times].filter(([, value]) => value !== undefined)) as AuditSearch;
}

export function hasFilters(search: AuditSearch): boolean {
  return Object.values(search).some((value) => value !== undefined);
}
