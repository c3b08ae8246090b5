import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import { Field, Select } from "@/design";
import { FormDialog } from "@/parts/form/FormDialog";
import { FormField } from "@/parts/form/FormField";
import { useForm } from "@/parts/form/useForm";
import { notifyDone } from "@/parts/notify";
import { slugIn } from "@/parts/slugs";
import { poolsQuery } from "@/parts/tenant/queries";
import { useSave } from "@/parts/useAction";
import { tenantsTexts as texts } from "@/texts/tenants";

const ANY = "*";

export function CreateTenantDialog({ onClose }: { onClose: () => void }) {
  const pools = useQuery(poolsQuery);
  const navigate = useNavigate();
  const form = useForm({
    saved: { name: "", slug: null as string | null, pool: ANY },
    save: useSave({
      mutationFn: (body: Schemas["CreateTenantRequest"]) => data(api.POST("/api/admin/tenants", { body })),
      changes: [keys.allTenants],
      onSuccess: (tenant) => notifyDone(texts.created(tenant.name)),
      onDone: (tenant) => navigate({ to: "/operate/tenants/$id", params: { id: tenant.id } }),
    }),
    body: (values) => ({
      name: values.name.trim(),
      slug: slugIn(values),
      pool: values.pool === ANY ? null : values.pool,
    }),
  });
  const { name, pool } = form.values;
  const slug = slugIn(form.values);
  const choices = [
    { value: ANY, label: texts.anyPool },
    ...(pools.data ?? []).map((each) => ({
      value: each.name,
      label: texts.poolOption(each.name, each.tenants, each.is_available),
    })),
  ];
  return (
    <FormDialog
      form={form}
      title={texts.createTitle}
      action={texts.create}
      disabled={!name.trim() || !slug}
      onClose={onClose}
    >
      <FormField form={form} name="name" label={texts.name} hint={texts.nameHint} maxLength={200} autoFocus />
      <FormField form={form} name="slug" label={texts.slug} hint={texts.slugHint} maxLength={63} value={slug} />
      <Field label={texts.pool} hint={texts.poolHint} error={form.reasonOf("pool")}>
        <Select value={pool} choices={choices} onChange={(chosen) => form.set({ pool: chosen })} />
      </Field>
    </FormDialog>
  );
}
