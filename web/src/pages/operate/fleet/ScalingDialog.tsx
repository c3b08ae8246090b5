import { useQuery } from "@tanstack/react-query";
import type { Schemas } from "@/api/types";
import { Dialog, Skeleton } from "@/design";
import { ProblemPanel } from "@/parts/ProblemPanel";
import { fleetTexts } from "@/texts/fleets";
import { fleetScalingQuery, scalingDriversQuery } from "./queries";
import { ScalingForm } from "./ScalingForm";

export function ScalingDialog({ fleet, onClose }: { fleet: Schemas["Fleet"]; onClose: () => void }) {
  const drivers = useQuery(scalingDriversQuery);
  const rules = useQuery({ ...fleetScalingQuery(fleet.id), enabled: fleet.scaling != null });
  const error = drivers.error ?? rules.error;
  const isKnown = drivers.data !== undefined && (fleet.scaling == null || rules.data !== undefined);
  return (
    <Dialog onClose={onClose} title={fleetTexts.scaling.dialogTitle(fleet.name)} wide>
      {isKnown ? (
        <ScalingForm
          fleet={fleet}
          rules={fleet.scaling == null ? null : (rules.data ?? null)}
          drivers={drivers.data}
          onClose={onClose}
        />
      ) : error ? (
        <ProblemPanel error={error} onRetry={() => void Promise.all([drivers.refetch(), rules.refetch()])} />
      ) : (
        <Skeleton className="h-64" />
      )}
    </Dialog>
  );
}
