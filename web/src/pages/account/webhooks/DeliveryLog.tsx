import { useInfiniteQuery } from "@tanstack/react-query";
import { Send } from "lucide-react";
import { useState } from "react";
import type { Schemas } from "@/api/types";
import { Badge, type Column, Empty, Time, type Tone } from "@/design";
import { PagedTable } from "@/parts/PagedTable";
import { webhookTexts as texts } from "@/texts/webhooks";
import { DeliveryDialog } from "./DeliveryDialog";
import { deliveriesQuery } from "./queries";

export type Delivery = Schemas["Delivery"];

const TONES: Record<Schemas["DeliveryStatus"], Tone> = { waiting: "run", delivered: "ok", given_up: "bad" };

/** The deliveries to an endpoint, newest first. */
export function DeliveryLog({ endpointId }: { endpointId: string }) {
  const query = useInfiniteQuery(deliveriesQuery(endpointId));
  const [shown, setShown] = useState<number | null>(null);
  const delivery = query.data?.pages.flatMap((page) => page.items).find(({ id }) => id === shown);
  return (
    <section className="grid grid-cols-[minmax(0,1fr)] gap-3">
      <h2>{texts.log}</h2>
      <PagedTable
        query={query}
        columns={columns(setShown)}
        rowKey={(row) => row.id}
        label={texts.log}
        empty={<Empty icon={<Send size={20} />} title={texts.logNone} text={texts.logNoneText} />}
      />
      {delivery && <DeliveryDialog endpointId={endpointId} delivery={delivery} onClose={() => setShown(null)} />}
    </section>
  );
}

export function DeliveryState({ delivery }: { delivery: Delivery }) {
  return <Badge tone={TONES[delivery.status]}>{texts.deliveryStates[delivery.status]}</Badge>;
}

/** The response of the receiver in a few words. */
export function outcomeOf({ response_status, error, milliseconds, attempts }: Delivery): string {
  if (attempts === 0) return "";
  const status = response_status == null ? (error ?? texts.noResponse) : String(response_status);
  return milliseconds == null ? status : `${status} · ${texts.milliseconds(milliseconds)}`;
}

function columns(show: (id: number) => void): readonly Column<Delivery>[] {
  return [
    {
      name: texts.event,
      className: "max-md:w-full",
      cell: (row) => (
        <>
          <button
            type="button"
            className="cursor-pointer font-[550] hover:underline"
            aria-label={texts.openDelivery(row.event, row.id)}
            onClick={() => show(row.id)}
          >
            {row.event}
          </button>
          <span className="block text-muted [overflow-wrap:anywhere] md:hidden">{outcomeOf(row)}</span>
        </>
      ),
    },
    { name: texts.state, cell: (row) => <DeliveryState delivery={row} /> },
    {
      name: texts.response,
      className: "w-full max-md:hidden",
      cell: (row) => <span className="[overflow-wrap:anywhere]">{outcomeOf(row)}</span>,
    },
    { name: texts.when, cell: (row) => <Time at={row.created_at} className="whitespace-nowrap" /> },
  ];
}
