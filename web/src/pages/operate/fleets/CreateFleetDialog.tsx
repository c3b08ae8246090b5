import { useNavigate } from "@tanstack/react-router";
import { api, data } from "@/api/client";
import * as fields from "@/api/fields";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import { creationPlan, wholeNumber } from "@/parts/fleet/fleet-changes";
import { WorkflowPicker } from "@/parts/fleet/WorkflowPicker";
import { FormDialog } from "@/parts/form/FormDialog";
import { FormField } from "@/parts/form/FormField";
import { useForm } from "@/parts/form/useForm";
import { notifyDone } from "@/parts/notify";
import { PlanText } from "@/parts/PlanText";
import { slugIn } from "@/parts/slugs";
import { useSave } from "@/parts/useAction";
import { fleetsTexts as texts } from "@/texts/fleets";

export function CreateFleetDialog({ onClose }: { onClose: () => void }) {
  const navigate = useNavigate();
  const form = useForm({
    saved: {
      name: "",
      slug: null as string | null,
      stage: fields.CreateFleetRequest.stage.default,
      desired_workers: "",
      workflow_slugs: [] as string[],
    },
    save: useSave({
      mutationFn: (body: Schemas["CreateFleetRequest"]) => data(api.POST("/api/admin/fleets", { body })),
      changes: [keys.allFleets],
      onSuccess: (fleet) => notifyDone(texts.created(fleet.name)),
      onDone: (fleet) => navigate({ to: "/operate/fleets/$id", params: { id: String(fleet.id) } }),
    }),
    body: (values) => ({
      name: values.name.trim() || null,
      slug: slugIn(values),
      stage: values.stage.trim(),
      workflow_slugs: values.workflow_slugs,
      desired_workers: wholeNumber(values.desired_workers),
    }),
    check: ({ desired_workers }) => ({ desired_workers: wholeNumber(desired_workers) === undefined && texts.notWhole }),
  });
  const slug = slugIn(form.values);
  const stage = form.values.stage.trim();
  const workflows = form.values.workflow_slugs;
  return (
    <FormDialog
      wide
      form={form}
      title={texts.createTitle}
      action={texts.create}
      disabled={!slug || !stage || !form.isValid}
      onClose={onClose}
    >
      <div className="grid items-start gap-4 sm:grid-cols-2">
        <FormField form={form} name="name" label={texts.name} maxLength={200} autoFocus />
        <FormField form={form} name="slug" label={texts.slug} hint={texts.slugHint} maxLength={63} value={slug} />
        <FormField form={form} name="stage" label={texts.stage} hint={texts.stageHint} maxLength={63} />
        <FormField
          form={form}
          name="desired_workers"
          label={texts.desired}
          hint={texts.desiredHint}
          inputMode="numeric"
        />
      </div>
      <WorkflowPicker
        value={workflows}
        onChange={(workflow_slugs) => form.set({ workflow_slugs })}
        error={form.reasonOf("workflow_slugs")}
      />
      {slug && stage && <PlanText label={texts.plan.label} sentences={creationPlan(slug, stage, workflows.length)} />}
    </FormDialog>
  );
}
