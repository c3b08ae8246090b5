// Describes audit entries in words. Pure.
import type { Schemas } from "@/api/types";
import { nameOfUser } from "@/parts/actor-name";

type AuditEntry = Schemas["AuditEntry"];

const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Details as text: `amount: 100, reason: Invoice 7`. Names replace the ids of users and tenants. */
export function detailsOf({ details, names }: Pick<AuditEntry, "details" | "names">): string {
  const named = (text: string) =>
    Object.entries(names ?? {}).reduce((result, [id, name]) => result.replaceAll(id, nameOfUser(name)), text);
  return Object.entries(details)
    .filter(([, value]) => value !== null && value !== "")
    .map(
      ([name, value]) =>
        `${wordsOf(name, value, names)}: ${named(typeof value === "string" ? value : JSON.stringify(value))}`,
    )
    .join(", ");
}

/** The detail `user id` shows as `user` if the name is known. */
function wordsOf(field: string, value: unknown, names: AuditEntry["names"]): string {
  const words = field.replaceAll("_", " ");
  return typeof value === "string" && names?.[value] ? words.replace(/ id$/, "") : words;
}

/** The name if the log has it, otherwise the id. */
export function subjectName({ subject_name, subject_id }: Pick<AuditEntry, "subject_name" | "subject_id">): string {
  return subject_name ? nameOfUser(subject_name) : subject_id;
}

/** URL of the changed object. If it was deleted, its page says so. */
export function pageOf({
  subject_type,
  subject_id,
  action,
}: Pick<AuditEntry, "subject_type" | "subject_id" | "action">) {
  // An invitation is not a user yet, and a failed login may have no user.
  const isUser = ID.test(subject_id) && action !== "user.invite" && action !== "user.uninvite";
  switch (subject_type) {
    case "job":
      return { to: "/operate/jobs/$id", params: { id: subject_id } } as const;
    case "worker":
      return { to: "/operate/workers/$id", params: { id: subject_id } } as const;
    case "fleet":
      return { to: "/operate/fleets/$id", params: { id: subject_id } } as const;
    case "workflow":
      return { to: "/operate/workflows/$slug", params: { slug: subject_id } } as const;
    case "effect":
      return { to: "/operate/effects/$slug", params: { slug: subject_id } } as const;
    case "tenant":
      return { to: "/operate/tenants/$id", params: { id: subject_id } } as const;
    case "user":
      return isUser ? ({ to: "/operate/users/$id", params: { id: subject_id } } as const) : null;
    case "bulk_action":
      return { to: "/operate/jobs", search: { view: "actions" } } as const;
    default:
      return null;
  }
}
