import { type FormEvent, useState } from "react";
import { explain, fieldReason } from "@/api/problems";
import type { Schemas } from "@/api/types";
import { Button, Dialog, Field, Input, Switch } from "@/design";
import { changePlan, changesOf, wholeNumber } from "@/parts/fleet/fleet-changes";
import { PlanText } from "@/parts/PlanText";
import { fleetsTexts, fleetTexts as texts } from "@/texts/fleets";
import { useUpdateFleet } from "./useFleetActions";

export function EditFleetDialog({ fleet: given, onClose }: { fleet: Schemas["Fleet"]; onClose: () => void }) {
  // The fleet at the time when the dialog opened, because the page refetches it often.
  const [fleet] = useState(given);
  const [name, setName] = useState(fleet.name);
  const [isActive, setActive] = useState(fleet.is_active);
  const [desired, setDesired] = useState(fleet.desired_workers == null ? "" : String(fleet.desired_workers));
  const save = useUpdateFleet(fleet.id, onClose);
  const wanted = wholeNumber(desired);
  const draft = { name: name.trim(), is_active: isActive, desired_workers: wanted ?? null };
  const isChanged = wanted !== undefined && Object.keys(changesOf(fleet, draft)).length > 0;
  const reasons = {
    name: fieldReason(save.error, "name"),
    desired: wanted === undefined ? fleetsTexts.notWhole : fieldReason(save.error, "desired_workers"),
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (isChanged) save.mutate(changesOf(fleet, draft));
  };
  return (
    <Dialog open onOpenChange={(open) => !open && onClose()} title={texts.editTitle(fleet.name)}>
      <form onSubmit={submit} onChange={() => save.error && save.reset()} className="grid gap-4" noValidate>
        <Field label={fleetsTexts.name} error={reasons.name}>
          <Input value={name} maxLength={200} autoFocus onChange={(event) => setName(event.target.value)} />
        </Field>
        <Field label={texts.isActive} hint={texts.isActiveHint}>
          <div className="flex min-h-9 items-center touch:min-h-11">
            <Switch checked={isActive} onChange={setActive} />
          </div>
        </Field>
        <Field
          label={fleetsTexts.desired}
          hint={fleet.scaling ? fleetsTexts.desiredScaled : fleetsTexts.desiredHint}
          error={reasons.desired}
        >
          <Input
            inputMode="numeric"
            value={desired}
            disabled={fleet.scaling != null}
            onChange={(event) => setDesired(event.target.value)}
          />
        </Field>
        {wanted !== undefined && <PlanText label={fleetsTexts.plan.label} sentences={changePlan(fleet, draft)} />}
        {save.error && !Object.values(reasons).some(Boolean) && (
          <p role="alert" className="text-s text-bad">
            {explain(save.error)}
          </p>
        )}
        <Button type="submit" look="go" busy={save.isPending} disabled={!isChanged || !draft.name}>
          {texts.save}
        </Button>
      </form>
    </Dialog>
  );
}
