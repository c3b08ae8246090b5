import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { alertsQuery } from "@/api/queries";
import type { components } from "@/api/schema";
import { Badge, Time } from "@/design";
import { TextWithCode } from "@/parts/TextWithCode";
import { operateTexts } from "@/texts/operate";
import { placeOf } from "./alert-places";
import { isLate } from "./figures";

type Alert = components["schemas"]["Alert"];

/** Alerts, critical first, each with the next step. */
export function AlertList() {
  const { data } = useQuery(alertsQuery);
  if (data === undefined || (data.alerts.length === 0 && !isLate(data))) return null;
  return (
    <section id="alerts" aria-label={operateTexts.alerts} className="mb-6 scroll-mt-20">
      {isLate(data) && data.checked_at && (
        <p className="mb-3 text-s text-warn">
          {operateTexts.lateCheck} <Time at={data.checked_at} />
        </p>
      )}
      <ul className="grid gap-3">
        {data.alerts.map((alert) => (
          <AlertPanel key={`${alert.process} ${alert.code} ${alert.subject}`} alert={alert} />
        ))}
      </ul>
    </section>
  );
}

function AlertPanel({ alert }: { alert: Alert }) {
  const isCritical = alert.severity === "critical";
  const place = placeOf(alert);
  return (
    <li className={isCritical ? "panel border-l-4 border-l-bad p-4" : "panel border-l-4 border-l-warn p-4"}>
      <div className="flex flex-wrap items-center gap-2">
        <Badge tone={isCritical ? "bad" : "warn"}>{operateTexts.severity[alert.severity]}</Badge>
        <span className="min-w-0 break-words font-[550]">{alert.message}</span>
        {alert.since && (
          <span className="text-s text-muted">
            {operateTexts.since} <Time at={alert.since} />
          </span>
        )}
        {alert.process && <span className="text-s text-muted">{operateTexts.onProcess(alert.process)}</span>}
      </div>
      <p className="mt-1.5 break-words text-s text-muted">
        <span className="font-[550] text-text">{operateTexts.whatToDo}:</span> {alert.action}
        {place && (
          <Link
            to={place.to}
            params={place.params}
            search={place.search}
            className="ml-2 font-[550] whitespace-nowrap text-text underline decoration-line-strong underline-offset-3 hover:decoration-text"
          >
            {place.label}
          </Link>
        )}
      </p>
      <details className="mt-1.5 text-s text-muted">
        <summary className="w-fit cursor-pointer rounded-s py-0.5 touch:min-h-11 touch:content-center">
          {operateTexts.whatItMeans}
        </summary>
        <p className="mt-1 max-w-prose break-words">
          <TextWithCode text={`${alert.meaning} ${alert.steps}`} />
        </p>
      </details>
    </li>
  );
}
