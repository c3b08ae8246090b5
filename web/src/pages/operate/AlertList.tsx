import { useQuery } from "@tanstack/react-query";
import { Badge } from "@/design";
import { operateTexts } from "@/texts/operate";
import { alertsQuery } from "./queries";

/** What needs an operator, critical first, each with what to do. */
export function AlertList() {
  const { data } = useQuery(alertsQuery);
  if (data === undefined || data.alerts.length === 0) return null;
  return (
    <section aria-label={operateTexts.alerts} className="mb-6">
      <ul className="grid gap-3">
        {data.alerts.map((alert) => (
          <li key={`${alert.code} ${alert.subject}`} className={alert.severity === "critical" ? "panel border-l-4 border-l-bad p-4" : "panel border-l-4 border-l-warn p-4"}>
            <div className="flex flex-wrap items-center gap-2">
              <Badge tone={alert.severity === "critical" ? "bad" : "warn"}>{operateTexts.severity[alert.severity]}</Badge>
              <span className="min-w-0 break-words font-[550]">{alert.message}</span>
            </div>
            <p className="mt-1.5 break-words text-s text-muted">
              <span className="font-[550] text-text">{operateTexts.whatToDo}:</span> {alert.action}
            </p>
          </li>
        ))}
      </ul>
    </section>
  );
}
