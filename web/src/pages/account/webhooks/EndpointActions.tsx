import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import { Button } from "@/design";
import { ConfirmDialog } from "@/parts/ConfirmDialog";
import { notifyDone } from "@/parts/notify";
import { useAction } from "@/parts/useAction";
import { webhookTexts as texts } from "@/texts/webhooks";
import type { Endpoint } from "./EndpointState";
import { ReplayDialog } from "./ReplayDialog";
import { SecretDialog } from "./SecretDialog";

type Question = "rotate" | "delete" | "replay";

/** The actions of a user on an endpoint. */
export function EndpointActions({ endpoint }: { endpoint: Endpoint }) {
  const navigate = useNavigate();
  const [asked, setAsked] = useState<Question | null>(null);
  const close = () => setAsked(null);
  const params = { path: { endpoint_id: endpoint.id } };
  const changes = [keys.webhookEndpoint(endpoint.id), keys.webhookEndpoints];
  const works = endpoint.enabled && !endpoint.disabled_at;
  const test = useAction({
    mutationFn: () => data(api.POST("/api/webhook-endpoints/{endpoint_id}/test", { params })),
    changes: [keys.webhookDeliveries(endpoint.id)],
    onSuccess: () => notifyDone(texts.testSent),
  });
  const change = useAction({
    mutationFn: (enabled: boolean) =>
      data(api.PATCH("/api/webhook-endpoints/{endpoint_id}", { params, body: { enabled } })),
    changes,
    onSuccess: (_, enabled) => notifyDone(enabled ? texts.enabled : texts.switchedOff),
  });
  const rotate = useAction({
    mutationFn: () => data(api.POST("/api/webhook-endpoints/{endpoint_id}/rotate-secret", { params })),
    gcTime: 0,
    onEnd: close,
  });
  const remove = useAction({
    mutationFn: () => data(api.DELETE("/api/webhook-endpoints/{endpoint_id}", { params })),
    changes: [keys.webhookEndpoints],
    onSuccess: () => {
      void notifyDone(texts.removed);
      void navigate({ to: "/account", search: { tab: "webhooks" } });
    },
    onEnd: close,
  });
  return (
    <div className="flex flex-wrap gap-2">
      {works ? (
        <Button look="go" busy={test.isPending} onClick={() => test.mutate()}>
          {texts.test}
        </Button>
      ) : (
        <Button look="go" busy={change.isPending} onClick={() => change.mutate(true)}>
          {texts.enable}
        </Button>
      )}
      <Button onClick={() => setAsked("replay")}>{texts.replay}</Button>
      <Button onClick={() => setAsked("rotate")}>{texts.rotate}</Button>
      {works && (
        <Button busy={change.isPending} onClick={() => change.mutate(false)}>
          {texts.switchOff}
        </Button>
      )}
      <Button look="danger" onClick={() => setAsked("delete")}>
        {texts.remove}
      </Button>
      {asked === "replay" && <ReplayDialog endpointId={endpoint.id} onClose={close} />}
      {asked === "rotate" && (
        <ConfirmDialog
          title={texts.rotateTitle}
          text={texts.rotateText}
          action={texts.rotate}
          busy={rotate.isPending}
          onConfirm={() => rotate.mutate()}
          onClose={close}
        />
      )}
      {asked === "delete" && (
        <ConfirmDialog
          danger
          title={texts.removeTitle}
          text={texts.removeText}
          action={texts.remove}
          busy={remove.isPending}
          onConfirm={() => remove.mutate()}
          onClose={close}
        />
      )}
      {rotate.data && (
        <SecretDialog
          title={texts.rotated}
          text={texts.rotatedText}
          secret={rotate.data.secret}
          onClose={() => rotate.reset()}
        />
      )}
    </div>
  );
}
