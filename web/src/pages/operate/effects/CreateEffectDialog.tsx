import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import { Field } from "@/design";
import { FormDialog } from "@/parts/form/FormDialog";
import { FormField } from "@/parts/form/FormField";
import { useForm } from "@/parts/form/useForm";
import { notifyDone } from "@/parts/notify";
import { slugIn } from "@/parts/slugs";
import { useSave } from "@/parts/useAction";
import { workflowChoicesQuery } from "@/parts/workflow/queries";
import { WorkflowSelect } from "@/parts/workflow/WorkflowSelect";
import { catalogEffectsTexts as texts } from "@/texts/catalog-effects";

/** Name and workflow of a new effect. All other fields are on its page. */
export function CreateEffectDialog({ workflow, onClose }: { workflow: string; onClose: () => void }) {
  const workflows = useQuery(workflowChoicesQuery);
  const navigate = useNavigate();
  const form = useForm({
    saved: { name: "", slug: null as string | null, workflow },
    save: useSave({
      mutationFn: (body: Schemas["CreateEffect"]) => data(api.POST("/api/admin/effects", { body })),
      changes: [keys.allEffectRecords],
      onSuccess: (made) => notifyDone(texts.created(made.name)),
      onDone: (made) => navigate({ to: "/operate/effects/$slug", params: { slug: made.slug } }),
    }),
    body: (values) => ({ ...values, slug: slugIn(values), overrides: {} }),
  });
  const { name, workflow: chosen } = form.values;
  const slug = slugIn(form.values);
  return (
    <FormDialog
      form={form}
      title={texts.createTitle}
      text={texts.createText}
      action={texts.createIt}
      cancel={texts.cancel}
      disabled={!name.trim() || !slug || !chosen}
      onClose={onClose}
    >
      <FormField form={form} name="name" label={texts.name} required maxLength={200} autoComplete="off" />
      <FormField
        form={form}
        name="slug"
        label={texts.slug}
        hint={texts.slugHint}
        required
        autoComplete="off"
        spellCheck={false}
        value={slug}
      />
      <Field
        label={texts.workflow}
        required
        hint={workflows.data?.length === 0 ? texts.noWorkflows : undefined}
        error={form.reasonOf("workflow")}
      >
        <WorkflowSelect value={chosen} onChange={(slug) => form.set({ workflow: slug })} />
      </Field>
    </FormDialog>
  );
}
