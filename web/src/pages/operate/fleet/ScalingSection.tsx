import { useState } from "react";
import type { Schemas } from "@/api/types";
import { Button } from "@/design";
import { ConfirmDialog } from "@/parts/ConfirmDialog";
import { Section } from "@/parts/Section";
import { fleetTexts } from "@/texts/fleets";
import { ScalingDialog } from "./ScalingDialog";
import { useStopScaling } from "./useFleetActions";

const texts = fleetTexts.scaling;

/** Whether an autoscaler starts workers for the fleet, the reason for the wanted number, and the rules. */
export function ScalingSection({ fleet, mayChange }: { fleet: Schemas["Fleet"]; mayChange: boolean }) {
  const [dialog, setDialog] = useState<"rules" | "stop" | null>(null);
  const close = () => setDialog(null);
  const stop = useStopScaling(fleet.id, close);
  const scaling = fleet.scaling;
  const actions = mayChange && (
    <>
      <Button size="s" onClick={() => setDialog("rules")}>
        {scaling ? texts.change : texts.setUp}
      </Button>
      {scaling && (
        <Button size="s" look="danger" onClick={() => setDialog("stop")}>
          {texts.stop}
        </Button>
      )}
    </>
  );
  return (
    <Section title={texts.title} actions={actions}>
      {scaling ? (
        <>
          <p>
            {fleetTexts.scaledBy(scaling.driver)} {scaling.reason ?? fleetTexts.noDecision}
          </p>
          {scaling.driver_error && (
            <p className="mt-1 text-bad [overflow-wrap:anywhere]">{fleetTexts.driverError(scaling.driver_error)}</p>
          )}
        </>
      ) : (
        <p className="text-muted">{texts.none}</p>
      )}
      {dialog === "rules" && <ScalingDialog fleet={fleet} onClose={close} />}
      {dialog === "stop" && (
        <ConfirmDialog
          danger
          title={texts.stopTitle(fleet.name)}
          text={texts.stopText}
          action={texts.stopIt}
          busy={stop.isPending}
          error={stop.error}
          onConfirm={() => stop.mutate(undefined)}
          onClose={close}
        />
      )}
    </Section>
  );
}
