import { useState } from "react";
import type { Schemas } from "@/api/types";
import { changePlan, changesOf, type FleetDraft, wholeNumber } from "@/parts/fleet/fleet-changes";
import { BooleanField } from "@/parts/form/BooleanField";
import { FormDialog } from "@/parts/form/FormDialog";
import { FormField } from "@/parts/form/FormField";
import { useForm } from "@/parts/form/useForm";
import { PlanText } from "@/parts/PlanText";
import { fleetsTexts, fleetTexts as texts } from "@/texts/fleets";
import { useUpdateFleet } from "./useFleetActions";

export function EditFleetDialog({ fleet: given, onClose }: { fleet: Schemas["Fleet"]; onClose: () => void }) {
  // The fleet at the time when the dialog opened, because the page refetches it often.
  const [fleet] = useState(given);
  const form = useForm({
    saved: {
      name: fleet.name,
      is_active: fleet.is_active,
      desired_workers: fleet.desired_workers == null ? "" : String(fleet.desired_workers),
    },
    save: useUpdateFleet(fleet.id, onClose),
    body: (values) => changesOf(fleet, draftOf(values)),
    check: ({ desired_workers }) => ({
      desired_workers: wholeNumber(desired_workers) === undefined && fleetsTexts.notWhole,
    }),
  });
  const draft = draftOf(form.values);
  const isChanged = Object.keys(changesOf(fleet, draft)).length > 0;
  return (
    <FormDialog
      form={form}
      title={texts.editTitle(fleet.name)}
      action={texts.save}
      disabled={!isChanged || !form.isValid || !draft.name}
      onClose={onClose}
    >
      <FormField form={form} name="name" label={fleetsTexts.name} maxLength={200} autoFocus />
      <BooleanField
        label={texts.isActive}
        hint={texts.isActiveHint}
        value={draft.is_active}
        onChange={(is_active) => form.set({ is_active })}
      />
      <FormField
        form={form}
        name="desired_workers"
        label={fleetsTexts.desired}
        hint={fleet.scaling ? fleetsTexts.desiredScaled : fleetsTexts.desiredHint}
        inputMode="numeric"
        disabled={fleet.scaling != null}
      />
      {form.isValid && <PlanText label={fleetsTexts.plan.label} sentences={changePlan(fleet, draft)} />}
    </FormDialog>
  );
}

function draftOf(values: { name: string; is_active: boolean; desired_workers: string }): FleetDraft {
  return { ...values, name: values.name.trim(), desired_workers: wholeNumber(values.desired_workers) ?? null };
}
