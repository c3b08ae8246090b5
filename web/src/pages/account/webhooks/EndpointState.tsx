import type { Schemas } from "@/api/types";
import { Badge } from "@/design";
import { webhookTexts as texts } from "@/texts/webhooks";

export type Endpoint = Schemas["WebhookEndpoint"];

export function EndpointState({ endpoint }: { endpoint: Endpoint }) {
  if (!endpoint.enabled) return <Badge>{texts.states.off}</Badge>;
  if (endpoint.disabled_at) return <Badge tone="bad">{texts.states.disabled}</Badge>;
  return endpoint.failures > 0 ? (
    <Badge tone="warn">{texts.states.failing}</Badge>
  ) : (
    <Badge tone="ok">{texts.states.enabled}</Badge>
  );
}
