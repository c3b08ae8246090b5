import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import { fieldReason } from "@/api/problems";
import type { Schemas } from "@/api/types";
import { Button, Dialog, Field, Input, Select } from "@/design";
import { notifyDone } from "@/parts/notify";
import { ProblemPanel } from "@/parts/ProblemPanel";
import { slugOf } from "@/parts/workflow/draft";
import { workflowChoicesQuery } from "@/parts/workflow/queries";
import { catalogEffectsTexts as texts } from "@/texts/catalog-effects";

/** Name and workflow of a new effect. All other fields are on its page. */
export function CreateEffectDialog({ workflow: wanted, onClose }: { workflow: string; onClose: () => void }) {
  const workflows = useQuery(workflowChoicesQuery);
  const [name, setName] = useState("");
  const [typedSlug, setSlug] = useState<string | null>(null);
  const [workflow, setWorkflow] = useState(wanted);
  const slug = typedSlug ?? slugOf(name);
  const create = useCreateEffect();
  const submit = (event: FormEvent) => {
    event.preventDefault();
    create.mutate({ name, slug, workflow, overrides: {} });
  };
  const isNamed = ["name", "slug", "workflow"].some((field) => fieldReason(create.error, field) !== null);
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={texts.createTitle}
      text={texts.createText}
      actions={
        <>
          <Button onClick={onClose}>{texts.cancel}</Button>
          <Button
            look="go"
            type="submit"
            form="new-effect"
            busy={create.isPending}
            disabled={!name.trim() || !slug || !workflow}
          >
            {texts.createIt}
          </Button>
        </>
      }
    >
      <form id="new-effect" onSubmit={submit} noValidate className="grid gap-4">
        <Field label={texts.name} required error={fieldReason(create.error, "name")}>
          <Input value={name} maxLength={200} autoComplete="off" onChange={(event) => setName(event.target.value)} />
        </Field>
        <Field label={texts.slug} required hint={texts.slugHint} error={fieldReason(create.error, "slug")}>
          <Input
            value={slug}
            autoComplete="off"
            spellCheck={false}
            onChange={(event) => {
              create.reset();
              setSlug(event.target.value);
            }}
          />
        </Field>
        <Field
          label={texts.workflow}
          required
          hint={workflows.data?.length === 0 ? texts.noWorkflows : undefined}
          error={fieldReason(create.error, "workflow")}
        >
          <Select
            value={workflow}
            choices={(workflows.data ?? []).map((each) => ({
              value: each.slug,
              label: each.name === each.slug ? each.slug : `${each.name} (${each.slug})`,
            }))}
            onChange={setWorkflow}
          />
        </Field>
      </form>
      {create.error !== null && !isNamed && <ProblemPanel error={create.error} />}
    </Dialog>
  );
}

function useCreateEffect() {
  const client = useQueryClient();
  const navigate = useNavigate();
  return useMutation({
    mutationFn: (body: { name: string; slug: string; workflow: string; overrides: Record<string, never> }) =>
      data(api.POST("/api/admin/effects", { body: body as Schemas["CreateEffect"] })),
    onSuccess: async (made) => {
      void client.invalidateQueries({ queryKey: keys.allEffectRecords });
      void notifyDone(texts.created(made.name));
      await navigate({ to: "/operate/effects/$slug", params: { slug: made.slug } });
    },
  });
}
