// The page where an operator reads more about an alert and acts on it.
import type { Schemas } from "@/api/types";
import { operateTexts } from "@/texts/operate";

type Alert = Pick<Schemas["Alert"], "code" | "subject">;

export interface AlertPlace {
  to:
    | "/operate/jobs"
    | "/operate/workers"
    | "/operate/fleets"
    | "/operate/providers"
    | "/operate/users"
    | "/operate/health"
    | "/operate/workflows/$slug";
  params?: { slug: string };
  search?: { status?: "failed" | "queued"; run?: string; workflow?: string; tab?: "settings"; view?: "mails" };
  label: string;
}

const texts = operateTexts.alertPlaces;

/** Alerts about machines of the control planes have no page. */
export function placeOf({ code, subject }: Alert): AlertPlace | null {
  // The subject is "slug (stage, provider)".
  const [workflow = ""] = subject.split(" ");
  switch (code) {
    case "no_live_worker":
      return {
        to: "/operate/workflows/$slug",
        params: { slug: workflow },
        search: { tab: "settings" },
        label: texts.workflow,
      };
    case "long_wait":
      return { to: "/operate/jobs", search: { status: "queued", workflow }, label: texts.waiting };
    case "many_failures":
    case "kills_engines":
      return { to: "/operate/jobs", search: { status: "failed", workflow }, label: texts.failed };
    // Only its user may open the run itself.
    case "stopped_run":
      return { to: "/operate/jobs", search: { status: "failed", run: subject }, label: texts.failed };
    // The subject is a pool.
    case "failing_runs":
      return { to: "/operate/jobs", search: { status: "failed" }, label: texts.failed };
    case "mails_not_sent":
      return { to: "/operate/users", search: { view: "mails" }, label: texts.mails };
    case "alerts_not_sent":
      return { to: "/operate/health", label: texts.testAlert };
    case "unapproved_workers":
    case "unverified_workers":
    case "low_worker_disk":
      return { to: "/operate/workers", label: texts.workers };
    case "scaling_driver_failing":
    case "fleet_at_maximum":
    case "fleet_cannot_run":
    case "scaling_paused":
      return { to: "/operate/fleets", label: texts.fleets };
    case "paused_limit":
    case "provider_paused":
    case "failing_provider":
      return { to: "/operate/providers", label: texts.providers };
    default:
      return null;
  }
}
