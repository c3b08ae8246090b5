import { useQuery } from "@tanstack/react-query";
import { Link, useRouterState } from "@tanstack/react-router";
import { TriangleAlert, X } from "lucide-react";
import { useState } from "react";
import { alertsQuery, meQuery } from "@/api/queries";
import { operateTexts } from "@/texts/operate";
import { newAlerts, readHidden, writeHidden } from "./hidden-alerts";
import { seesOperate } from "./navigation";

/** Shows alerts on every page of an operator until they end or the user hides them in this tab. */
export function AlertBanner() {
  const { data: me } = useQuery(meQuery);
  const isOverview = useRouterState({ select: (state) => state.location.pathname === "/operate" });
  const { data } = useQuery({ ...alertsQuery, enabled: me !== undefined && seesOperate(me.role) });
  const [hidden, setHidden] = useState(readHidden);
  const alerts = newAlerts(data?.alerts ?? [], hidden);
  const first = alerts[0];
  // The overview lists the alerts itself.
  if (first === undefined || isOverview) return null;
  const tone = first.severity === "critical" ? "bg-bad-soft text-bad" : "bg-warn-soft text-warn";
  return (
    <section
      aria-label={operateTexts.banner.label}
      className={`flex items-center gap-3 border-b px-4 py-2 text-s md:px-8 ${tone}`}
    >
      <TriangleAlert size={16} aria-hidden className="shrink-0" />
      <p className="min-w-0 grow truncate" title={first.message}>
        <strong className="font-[550]">{operateTexts.severity[first.severity]}:</strong> {first.message}{" "}
        {alerts.length > 1 && operateTexts.banner.more(alerts.length - 1)}
      </p>
      <Link to="/operate" hash="alerts" className="shrink-0 font-[550] whitespace-nowrap underline underline-offset-2">
        {operateTexts.banner.open}
      </Link>
      <button
        type="button"
        aria-label={operateTexts.banner.hide}
        className="grid size-7 shrink-0 place-items-center rounded-s touch:size-11"
        onClick={() => setHidden(writeHidden(data?.alerts ?? []))}
      >
        <X size={16} aria-hidden />
      </button>
    </section>
  );
}
