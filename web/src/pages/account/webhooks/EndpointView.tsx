import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { ArrowLeft } from "lucide-react";
import { Pending } from "@/parts/Pending";
import { webhookTexts as texts } from "@/texts/webhooks";
import { DeliveryLog } from "./DeliveryLog";
import { EndpointActions } from "./EndpointActions";
import { EndpointState } from "./EndpointState";
import { endpointQuery } from "./queries";

/** One endpoint: what it gets, whether it works, and its log. */
export function EndpointView({ id }: { id: string }) {
  const query = useQuery(endpointQuery(id));
  const endpoint = query.data;
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-5">
      <Link to="/account" search={{ tab: "webhooks" }} className="flex items-center gap-2 text-muted hover:text-ink">
        <ArrowLeft size={16} aria-hidden />
        {texts.back}
      </Link>
      {endpoint ? (
        <>
          <section className="panel grid gap-4 p-5">
            <div className="grid gap-2">
              <div className="flex flex-wrap items-center gap-3">
                <h2 className="min-w-0 text-l [overflow-wrap:anywhere]">{endpoint.url}</h2>
                <EndpointState endpoint={endpoint} />
              </div>
              {endpoint.description && <p className="[overflow-wrap:anywhere]">{endpoint.description}</p>}
              <p className="text-muted [overflow-wrap:anywhere]">
                {texts.scopeOf[endpoint.scope]}: {endpoint.events.join(", ")}
              </p>
              {endpoint.client_references.length > 0 && (
                <p className="text-muted [overflow-wrap:anywhere]">
                  {texts.references}: {endpoint.client_references.join(", ")}
                </p>
              )}
              <Trouble reason={endpoint.disabled_reason} error={endpoint.last_error} />
            </div>
            <EndpointActions endpoint={endpoint} />
          </section>
          <DeliveryLog endpointId={id} />
        </>
      ) : (
        <Pending query={query} className="h-40" />
      )}
    </div>
  );
}

function Trouble({ reason, error }: { reason?: string | null; error?: string | null }) {
  if (reason) return <p className="text-bad [overflow-wrap:anywhere]">{reason}</p>;
  return error ? <p className="text-warn [overflow-wrap:anywhere]">{texts.failing(error)}</p> : null;
}
