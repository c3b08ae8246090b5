import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import { explain, fieldReason } from "@/api/problems";
import type { Schemas } from "@/api/types";
import { Button, Dialog, Field, Input } from "@/design";
import { creationPlan, wholeNumber } from "@/parts/fleet/fleet-changes";
import { WorkflowPicker } from "@/parts/fleet/WorkflowPicker";
import { notifyDone } from "@/parts/notify";
import { PlanText } from "@/parts/PlanText";
import { slugOf } from "@/parts/slugs";
import { fleetsTexts as texts } from "@/texts/fleets";

const STAGE = "production";

export function CreateFleetDialog({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const [typedSlug, setSlug] = useState<string | null>(null);
  const [stage, setStage] = useState(STAGE);
  const [desired, setDesired] = useState("");
  const [workflows, setWorkflows] = useState<string[]>([]);
  const create = useCreateFleet();
  const slug = typedSlug ?? slugOf(name);
  const wanted = wholeNumber(desired);
  const reasons = {
    name: fieldReason(create.error, "name"),
    slug: fieldReason(create.error, "slug"),
    stage: fieldReason(create.error, "stage"),
    desired: wanted === undefined ? texts.notWhole : fieldReason(create.error, "desired_workers"),
    workflows: fieldReason(create.error, "workflow_slugs"),
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (wanted !== undefined)
      create.mutate({
        name: name.trim() || null,
        slug,
        stage: stage.trim(),
        workflow_slugs: workflows,
        desired_workers: wanted,
      });
  };
  return (
    <Dialog open onOpenChange={(open) => !open && onClose()} title={texts.createTitle} wide>
      <form onSubmit={submit} onChange={() => create.error && create.reset()} className="grid gap-4" noValidate>
        <div className="grid items-start gap-4 sm:grid-cols-2">
          <Field label={texts.name} error={reasons.name}>
            <Input value={name} maxLength={200} autoFocus onChange={(event) => setName(event.target.value)} />
          </Field>
          <Field label={texts.slug} hint={texts.slugHint} error={reasons.slug}>
            <Input value={slug} maxLength={63} onChange={(event) => setSlug(event.target.value)} />
          </Field>
          <Field label={texts.stage} hint={texts.stageHint} error={reasons.stage}>
            <Input value={stage} maxLength={63} onChange={(event) => setStage(event.target.value)} />
          </Field>
          <Field label={texts.desired} hint={texts.desiredHint} error={reasons.desired}>
            <Input inputMode="numeric" value={desired} onChange={(event) => setDesired(event.target.value)} />
          </Field>
        </div>
        <WorkflowPicker value={workflows} onChange={setWorkflows} error={reasons.workflows} />
        {slug && stage.trim() && (
          <PlanText label={texts.plan.label} sentences={creationPlan(slug, stage.trim(), workflows.length)} />
        )}
        {create.error && !Object.values(reasons).some(Boolean) && (
          <p role="alert" className="text-s text-bad">
            {explain(create.error)}
          </p>
        )}
        <Button
          type="submit"
          look="go"
          busy={create.isPending}
          disabled={!slug || !stage.trim() || wanted === undefined}
        >
          {texts.create}
        </Button>
      </form>
    </Dialog>
  );
}

function useCreateFleet() {
  const client = useQueryClient();
  const navigate = useNavigate();
  return useMutation({
    mutationFn: (body: Schemas["CreateFleetRequest"]) => data(api.POST("/api/admin/fleets", { body })),
    onSuccess: async (fleet) => {
      void notifyDone(texts.created(fleet.name));
      await client.invalidateQueries({ queryKey: keys.allFleets });
      await navigate({ to: "/operate/fleets/$id", params: { id: String(fleet.id) } });
    },
  });
}
