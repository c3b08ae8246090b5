import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import { Button, Dialog, Time } from "@/design";
import { notifyDone } from "@/parts/notify";
import { useAction } from "@/parts/useAction";
import { webhookTexts as texts } from "@/texts/webhooks";
import { type Delivery, DeliveryState, outcomeOf } from "./DeliveryLog";

/** The request and the response of one delivery. */
export function DeliveryDialog({
  endpointId,
  delivery,
  onClose,
}: {
  endpointId: string;
  delivery: Delivery;
  onClose: () => void;
}) {
  const redeliver = useAction({
    mutationFn: () =>
      data(
        api.POST("/api/webhook-endpoints/{endpoint_id}/deliveries/{delivery_id}/redeliver", {
          params: { path: { endpoint_id: endpointId, delivery_id: delivery.id } },
        }),
      ),
    changes: [keys.webhookDeliveries(endpointId)],
    onSuccess: () => notifyDone(texts.redelivered),
  });
  return (
    <Dialog
      wide
      onClose={onClose}
      title={texts.delivery(delivery.event)}
      actions={
        <Button look="go" busy={redeliver.isPending} onClick={() => redeliver.mutate()}>
          {texts.redeliver}
        </Button>
      }
    >
      <div className="flex flex-wrap items-center gap-3">
        <DeliveryState delivery={delivery} />
        <span className="text-muted">{texts.attempts(delivery.attempts)}</span>
        {delivery.subject_id && delivery.event.startsWith("job.") && (
          <Link to="/jobs/$id" params={{ id: delivery.subject_id }} className="underline">
            {texts.jobOf}
          </Link>
        )}
      </div>
      <dl className="grid gap-2 text-s">
        <Line name={texts.webhookId}>
          <code>{delivery.webhook_id}</code>
        </Line>
        {delivery.url && <Line name={texts.sentTo}>{delivery.url}</Line>}
        {delivery.next_attempt_at && (
          <Line name={texts.next}>
            <Time at={delivery.next_attempt_at} />
          </Line>
        )}
        <Line name={texts.response}>{outcomeOf(delivery)}</Line>
        {delivery.response_status != null && delivery.error && <Line name="">{delivery.error}</Line>}
      </dl>
      <Block title={texts.request} text={JSON.stringify(delivery.body, null, 2)} />
      {delivery.response_status != null && (
        <Block title={texts.responseText} text={delivery.response_text || texts.emptyResponse} />
      )}
    </Dialog>
  );
}

function Line({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div className="grid gap-x-4 sm:grid-cols-[8rem_minmax(0,1fr)]">
      <dt className="text-muted">{name}</dt>
      <dd className="[overflow-wrap:anywhere]">{children}</dd>
    </div>
  );
}

function Block({ title, text }: { title: string; text: string }) {
  return (
    <section aria-label={title} className="grid gap-1.5">
      <h3 className="text-s font-[550]">{title}</h3>
      <pre
        // A long text scrolls, also with the keyboard.
        tabIndex={0}
        className="max-h-64 overflow-auto rounded-s border bg-bg p-3 text-xs [overflow-wrap:anywhere] whitespace-pre-wrap"
      >
        {text}
      </pre>
    </section>
  );
}
