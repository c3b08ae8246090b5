import type { Schemas } from "@/api/types";
import { Badge } from "@/design";
import { fleetsTexts } from "@/texts/fleets";

export function FleetBadge({ fleet }: { fleet: Schemas["Fleet"] }) {
  if (!fleet.is_active) return <Badge tone="plain">{fleetsTexts.off}</Badge>;
  if (fleet.scaling?.driver_error) return <Badge tone="bad">{fleetsTexts.driverFails}</Badge>;
  if (fleet.live_workers > 0) return <Badge tone="ok">{fleetsTexts.serves}</Badge>;
  return <Badge tone={fleet.scaling ? "plain" : "warn"}>{fleetsTexts.noLive}</Badge>;
}
